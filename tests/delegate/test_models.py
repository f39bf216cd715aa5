"""The six float models: errors against LiteRT's CPU interpreter; dispatches and memory on the null device."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyopencl
import pytest
from ai_edge_litert.interpreter import OpResolverType

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.program import Program
from framebind.interop.cl.compute.device import ClDevice
from framebind.interop.device import Device
from framebind.interop.gl.compute.device import GlDevice
from framebind.interop.null.device import NullDevice
from framebind.kernels.views import Dense, Picture, Storage, picture_parameters
from support.model_runs import Values, input_shapes, on_gpu, reference
from support.models import MODELS, TOLERANCE, Photograph, RealModel, random_inputs, relative_error, sample_bilinear

GOLDEN = Path(__file__).parents[1] / "delegate" / "golden.txt"
FindModel = Callable[[str], Path]
by_name = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
by_storage = pytest.mark.parametrize("storage", ["f32", "f16"])


def own_disagreement(path: Path, inputs: Values) -> dict[int, float]:
    """The distance of LiteRT's other CPU kernels (its plain and reference ones) from XNNPACK's, by output tensor.

    On white noise pose_landmark_lite's mask amplifies rounding so much that no two orders of summation agree to 1e-4:
    LiteRT's three sets of CPU kernels differ by 2e-4 to 6e-4 there. That is then the bound, measured in the same run.
    """
    expected = reference(path, inputs)
    others = [
        reference(path, inputs, resolver)
        for resolver in (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)
    ]
    return {tensor: max(relative_error(other[tensor], value) for other in others) for tensor, value in expected.items()}


def picture_on(gpu: Device, picture: npt.NDArray[np.uint8]) -> fb.GlTexture | pyopencl.Image | fb.cuda.CudaImage:
    """A photograph (height, width, 3) as a user's own rgba8 texture or image."""
    if isinstance(gpu, GlDevice):
        return fb.GlTexture.from_array(picture)
    rgba = np.dstack([picture, np.full(picture.shape[:2], 255, np.uint8)])
    if not isinstance(gpu, ClDevice):
        return fb.cuda.CudaImage.from_array(rgba)
    return pyopencl.image_from_array(gpu.context.context, rgba, 4, norm_int=True)


@by_name
@by_storage
def test_random_input(gpu: Device, model_path: FindModel, model: RealModel, storage: str) -> None:
    path = model_path(model.name)
    interpreter, delegate = on_gpu(gpu, path, storage)
    inputs = random_inputs(input_shapes(interpreter), model)
    expected = reference(path, inputs)
    bounds = dict.fromkeys(expected, TOLERANCE[storage])
    if (model.name, storage) == ("pose_landmark_lite", "f32"):
        bounds = {tensor: max(bounds[tensor], error) for tensor, error in own_disagreement(path, inputs).items()}
    for tensor, value in inputs.items():
        interpreter.set_tensor(tensor, value)
    interpreter.invoke()
    errors = {tensor: relative_error(interpreter.get_tensor(tensor), value) for tensor, value in expected.items()}
    assert all(errors[tensor] <= bounds[tensor] for tensor in expected), (errors, bounds)
    delegate.close()


@by_name
@by_storage
def test_photograph_through_a_bound_texture(
    gpu: Device, model_path: FindModel, photograph: Photograph, model: RealModel, storage: str
) -> None:
    picture = photograph("astronaut", 640, 480)
    interpreter, delegate = on_gpu(gpu, model_path(model.name), storage)
    shapes = input_shapes(interpreter)
    inputs = random_inputs(shapes, model)
    frame = interpreter.inputs()[0]
    sampled = sample_bilinear(picture, *shapes[frame][1:3])
    inputs[frame] = (sampled - np.float32(model.mean)) / np.float32(model.std)
    expected = reference(model_path(model.name), inputs)
    delegate.bind_buffer_to_tensor(picture_on(gpu, picture), frame, mean=model.mean, std=model.std)
    for tensor, value in inputs.items():
        if tensor != frame:
            interpreter.set_tensor(tensor, value)
    interpreter.invoke()
    errors = {tensor: relative_error(interpreter.get_tensor(tensor), value) for tensor, value in expected.items()}
    assert max(errors.values()) <= TOLERANCE[storage], errors
    if model.classes:
        ((tensor, scores),) = expected.items()
        same = interpreter.get_tensor(tensor).argmax(-1) == scores.argmax(-1)
        assert len(np.unique(scores.argmax(-1))) > 1 and same.mean() >= 0.99
    delegate.close()


@by_name
@by_storage
def test_gl_and_opencl_agree(
    gl_and_cl: tuple[Device, Device], model_path: FindModel, photograph: Photograph, model: RealModel, storage: str
) -> None:
    outputs: list[Values] = []
    for gpu in gl_and_cl:
        interpreter, delegate = on_gpu(gpu, model_path(model.name), storage)
        shapes = input_shapes(interpreter)
        inputs = random_inputs(shapes, model)
        frame = interpreter.inputs()[0]
        sampled = sample_bilinear(photograph("coffee", 640, 480), *shapes[frame][1:3])
        inputs[frame] = (sampled - np.float32(model.mean)) / np.float32(model.std)
        for tensor, value in inputs.items():
            interpreter.set_tensor(tensor, value)
        interpreter.invoke()
        outputs.append({tensor: interpreter.get_tensor(tensor) for tensor in interpreter.outputs()})
        delegate.close()
    errors = {tensor: relative_error(outputs[1][tensor], value) for tensor, value in outputs[0].items()}
    assert max(errors.values()) <= TOLERANCE[storage], errors


def bound_program(path: Path, storage: Storage) -> Program:
    """The model on the null device, pictures bound to textures of another size, all else to buffers."""
    subgraph = read_model(path.read_bytes()).subgraphs[0]
    claims = claim(subgraph, lambda: NullDevice().traits.target)
    assert claims.unsupported == {}
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    device = NullDevice()
    program = Program(device, compile_program(graph, device.traits, storage))
    for tensor in (*program.inputs, *program.outputs):
        shape = graph.tensors[tensor].bhwc
        if tensor in program.inputs and shape[3] == 3:
            view = Picture(shape, "rgba8", "rgb", "bilinear")
            texture = device.texture(640, 480, "rgba8", "frame")
            program.bind(tensor, Binding(texture, view, picture_parameters(shape, (640, 480))))
        else:
            program.bind(tensor, Binding(device.buffer(Dense(shape).nbytes, "bound"), Dense(shape)))
    return program


def test_dispatches_and_memory_are_the_recorded_ones(model_path: FindModel) -> None:
    """A change of golden.txt is a change of speed or memory, for review. FRAMEBIND_GOLDEN=write writes it anew."""
    lines = ["# model storage: dispatches barriers kernels arena_bytes constant_bytes"]
    for model in MODELS:
        for storage in ("f32", "f16"):
            program = bound_program(model_path(model.name), storage)
            commands = program.record()
            kernels = len({step.kernel.source for step in commands.steps})
            counts = (len(commands.steps), commands.barriers, kernels, program.arena_nbytes, program.weights_nbytes)
            lines.append(f"{model.name} {storage}: {' '.join(map(str, counts))}")
            assert counts[0] <= model.dispatches
    text = "\n".join(lines) + "\n"
    if os.environ.get("FRAMEBIND_GOLDEN") == "write":
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
