"""Stand-ins for MobileNet v1 and SSD MobileNet v1 run end to end: most on the GPU, the boxes' selection on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ai_edge_litert.interpreter as litert
import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
import stand_ins
from framebind.tools.evaluation.coco import whole as prepare_coco
from framebind.tools.evaluation.imagenet import prepare as prepare_imagenet
from framebind.tools.evaluation.preprocessing import to_tensor
from support.environment import photograph_path

Array = npt.NDArray[Any]

SMALL = {"blocks": 3, "width": 0.25}


def outputs(interpreter: Any, tensor: Array) -> list[Array]:
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], tensor)
    interpreter.invoke()
    return [np.array(interpreter.get_tensor(each["index"])) for each in interpreter.get_output_details()]


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize(
    ("make", "prepare", "size", "shapes", "on_cpu"),
    [
        (stand_ins.mobilenet, prepare_imagenet, 224, [(1, 1001)], []),
        (
            stand_ins.ssd_mobilenet, prepare_coco, 300, [(1, 10, 4), (1, 10), (1, 10), (1,)],
            ["TFLite_Detection_PostProcess"],
        ),
    ],
)  # fmt: skip
def test_a_photograph_gives_what_it_gives_on_the_cpu(
    make: Callable[..., bytes], prepare: Callable[[Path, tuple[int, int]], Array], size: int,
    shapes: list[tuple[int, ...]], on_cpu: list[str], context: fb.GlContext,
) -> None:  # fmt: skip
    tensor = to_tensor(prepare(photograph_path(), (size, size)), np.float32)
    model = make(**SMALL)
    expected = outputs(litert.Interpreter(model_content=model), tensor)
    interpreter = fb.Interpreter(model_content=model)
    options = fb.GpuDelegateOptions(backend="opengl", is_precision_loss_allowed=False)
    interpreter.modify_graph_with_delegate(fb.GpuDelegate(options))
    found = outputs(interpreter, tensor)
    assert [each.shape for each in found] == shapes
    assert [op.name for op in interpreter.delegated_ops() if op.runs_on == "cpu"] == on_cpu
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_the_whole_architectures_have_the_known_numbers_of_parameters() -> None:
    # "MobileNets", table 8: 4.2 million, of which the 1001 classes take 1.03 million.
    model = stand_ins.mobilenet()
    assert 4.2e6 < len(model) / 4 < 4.3e6
    interpreter = litert.Interpreter(model_content=stand_ins.ssd_mobilenet())
    (picture,) = interpreter.get_input_details()
    assert tuple(picture["shape"]) == (1, 300, 300, 3)
