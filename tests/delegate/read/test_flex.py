"""The FlexBuffers that LiteRT reads without a check of its own."""

from __future__ import annotations

from typing import Any

import pytest
from flatbuffers import flexbuffers

import framebind as fb
from framebind.delegate.read.flex import check_flexible
from framebind.delegate.read.reader import read_model
from support.tiny_models import pack, unpack
from support.video.task_bundles import selecting_detector


def written(**values: Any) -> bytes:
    """A map of these values."""
    builder: Any = flexbuffers.Builder()
    with builder.Map():
        for name, value in values.items():
            builder.Key(name)
            builder.Add(value)
    return bytes(builder.Finish())


NUMBERS = {"max_detections": 1 << 20, "nms_iou_threshold": 0.5, "use_regular_nms": False, "num_classes": 90}


def test_a_sound_map_is_taken() -> None:
    check_flexible("operator 0", written(**NUMBERS))
    check_flexible("operator 0", written())


def test_what_lies_outside_is_refused() -> None:
    sound = written(**NUMBERS)
    with pytest.raises(fb.ModelError, match="operator 0 has damaged options: a value is no number"):
        check_flexible("operator 0", written(name="a"))
    for damaged, message in (
        (b"", "index out of range"),
        (bytes([0, 4, 1]), "they are no map"),
        (sound[:-3] + bytes([255, *sound[-2:]]), "a part lies in front of them"),
        (sound[:-1] + bytes([3]), "3 bytes at"),
        (sound[20:], "damaged options"),
    ):
        with pytest.raises(fb.ModelError, match=message):
            check_flexible("operator 0", damaged)
    refused = 0
    for place in range(len(sound)):
        try:
            check_flexible("operator 0", sound[:place] + bytes([sound[place] ^ 0x27]) + sound[place + 1 :])
        except fb.ModelError:
            refused += 1
    assert refused >= 20


def test_a_detector_with_damaged_options_is_refused() -> None:
    """LiteRT 2.3 dies of it."""
    content = selecting_detector()
    read_model(content)
    model = unpack(content)
    options = next(each for each in model.subgraphs[0].operators if each.customOptions is not None)
    options.customOptions = [*options.customOptions[:-3], 0x7F, *options.customOptions[-2:]]
    with pytest.raises(fb.ModelError, match="TFLite_Detection_PostProcess has damaged options"):
        read_model(pack(model))
