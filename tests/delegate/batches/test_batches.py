"""Batches: a model resized to N frames, bound as one buffer, or as N objects."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import framebind as fb
from framebind.delegate.claim.claims import claim
from framebind.delegate.compiler import compile_program
from framebind.delegate.plan.binding import Binding, Frames, TextureMapping
from framebind.delegate.read.reader import read_model
from framebind.delegate.run.batches import exchanged, mappings, negotiated
from framebind.delegate.run.program import Program
from framebind.interop.device import Device
from framebind.interop.null.device import NullDevice, NullResource
from framebind.interop.record.one_dispatch import why_not_one
from framebind.kernels.tensor import TensorInfo
from framebind.kernels.views import Dense, Picture
from framebind.tools.certify.cases.operator_models import options
from framebind.video.apis import APIS
from support.model_runs import backend_of
from support.tiny_models import G, Op, T, build, chain

N = 3
IMAGE = TensorInfo("image", (N, 4, 6, 3), "float32")
RNG = np.random.default_rng(0)
Array = npt.NDArray[Any]


def buffer(nbytes: int = 288) -> NullResource:
    return NullResource("my buffer", nbytes)


def texture(width: int = 6, height: int = 4, format: str = "rgba8") -> NullResource:
    return NullResource("my texture", 0, (width, height), format)


def bind(obj: Any, tensor: TensorInfo = IMAGE, *, write: bool = False, **mapping: Any) -> Any:
    whole = mappings(*(TextureMapping()._asdict() | mapping).values())
    return negotiated(NullDevice(), obj, tensor, 7, write=write, mapping=whole)


# What fits -----------------------------------------------------------------------------------------------------------


def test_each_frame_has_an_object_and_a_view_of_its_own() -> None:
    binding = bind([buffer()] * N)
    assert binding.view == Frames((N, 4, 6, 3), (Dense((1, 4, 6, 3)),) * N)
    assert binding.how == "one conversion dispatch for each frame"
    exact, sampled = (Picture((1, 4, 6, 3), "rgba8", "rgb", kind) for kind in ("exact", "bilinear"))
    assert bind([texture(), texture(64, 48), texture()]).view.views == (exact, sampled, exact)


def test_regions_are_those_of_each_frame_or_of_all() -> None:
    camera = texture(64, 48)
    crops = [(0, 0, 8, 8), None, (8, 8, 16, 16)]
    frames = bind([camera] * N, crop=crops, rotation=[0.0, 90.0, 10.0], mean=0.5).frames
    alone = [bind([camera], TensorInfo("one", (1, 4, 6, 3), "float32"), crop=crop, rotation=degrees, mean=0.5)
             for crop, degrees in zip(crops, (0.0, 90.0, 10.0), strict=True)]  # fmt: skip
    assert [frame.parameters for frame in frames] == [one.parameters for one in alone]
    assert len({frame.parameters for frame in bind([camera] * N, crop=(0, 0, 8, 8)).frames}) == 1


def test_a_list_of_one_is_the_object() -> None:
    one = TensorInfo("one", (1, 4, 6, 3), "float32")
    assert bind([texture()], one, crop=[(0, 0, 2, 2)]).view == bind(texture(), one, crop=(0, 0, 2, 2)).view


def test_like_frames_are_exchanged_and_others_decided_anew() -> None:
    device, before = NullDevice(), bind([texture() for _ in range(N)])
    others = [texture() for _ in range(N)]
    after = exchanged(device, others, before)
    assert after is not None and [f.resource for f in after.frames] == others and after.view is before.view
    assert exchanged(device, others[:2], before) is None
    assert exchanged(device, [*others[:2], texture(7, 4)], before) is None
    assert exchanged(device, others[0], before) is None


# What does not fit ---------------------------------------------------------------------------------------------------

LABEL = r"tensor 7 'image' \(BHWC 3x4x6x3\) cannot be bound to a list of "


@pytest.mark.parametrize(
    "obj, mapping, says",
    [
        ([buffer()] * 2, {}, LABEL + "2: its first dimension is 3; give one object for each, or one buffer that holds"),
        ([], {}, LABEL + "0: its first dimension is 3"),
        ([buffer(), texture(), buffer()], {}, LABEL + "3: it mixes buffers and textures of rgba8; take objects of one"),
        ([texture(), texture(), texture(format="rgba16f")], {}, "it mixes textures of rgba8 and textures of rgba16f"),
        ([buffer(), buffer(400), buffer()], {}, LABEL + "3: its buffers have 288 and 400 bytes; take buffers of one"),
        ([buffer(), buffer(100), buffer()], {}, "frame 1 of 3: tensor 7 .* my buffer of 100 bytes: .* 288 bytes"),
        ([texture()] * 3, {"crop": [(0, 0, 2, 2)] * 2}, LABEL + "3: there are 2 crops or rotations; give one for each"),
        ([texture()] * 3, {"crop": [None, (0, 0, 0, 1), None]}, r"frame 1 of 3: .* crop \(0, 0, 0, 1\) must be"),
        ([texture()] * 3, {"crop": [None] * 3, "rotation": [0.0] * 2}, "there are 3 crops and 2 rotations"),
        (buffer(288 * N), {"rotation": [0.0] * 3}, "cannot be bound with a list of crops or rotations: that is for a"),
        (texture(), {}, "a texture holds batch 1 and 1 to 4 channels; bind a buffer of 864 bytes, or a list of 3"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(obj: Any, mapping: dict[str, Any], says: str) -> None:
    with pytest.raises(fb.BindingError, match=says) as caught:
        bind(obj, **mapping)
    assert "\n" not in str(caught.value)


def test_an_output_texture_of_another_size_is_refused_by_its_number() -> None:
    with pytest.raises(fb.BindingError, match=r"frame 2 of 3: .* an output texture has the tensor's size, 6x4 texels"):
        bind([texture(), texture(), texture(7, 4)], write=True)


# On devices ----------------------------------------------------------------------------------------------------------


def api_of(gpu: Device) -> fb.Backend:
    (api,) = [api for api in APIS if api.name == backend_of(gpu)]
    return api


def resized(
    gpu: Device, model: bytes, shapes: dict[int, tuple[int, ...]], **given: Any
) -> tuple[fb.Interpreter, fb.GpuDelegate]:
    """An interpreter whose inputs have these shapes, with its delegate; outputs stay on the GPU."""
    interpreter = fb.Interpreter(model_content=model)
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend=backend_of(gpu), **given))
    interpreter.modify_graph_with_delegate(delegate)
    for tensor, shape in shapes.items():
        interpreter.resize_tensor_input(tensor, shape)
    interpreter.allocate_tensors()
    interpreter.set_allow_buffer_handle_output(True)
    return interpreter, delegate


def values_of(delegate: fb.GpuDelegate, interpreter: fb.Interpreter, tensor: int) -> Array:
    """A copy of an output, wherever it is bound."""
    delegate.ensure_tensor_data_is_readable(tensor)
    return interpreter.get_tensor(tensor).copy()


def convolution(shape: tuple[int, ...] = (1, 9, 8, 3)) -> bytes:
    """A convolution to 8 channels, a RELU6, and one to 4."""
    weights = [RNG.normal(size=size).astype(np.float32) for size in ((8, 3, 3, 3), (8,), (4, 1, 1, 8), (4,))]
    tensors = [
        T("x", shape), *(T(f"w{i}", w.shape, w) for i, w in enumerate(weights)), T("a", (*shape[:3], 8)),
        T("b", (*shape[:3], 8)), T("y", (*shape[:3], 4)),
    ]  # fmt: skip
    conv = options("Conv2D", strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1)
    operators = [Op("CONV_2D", [0, 1, 2], [5], conv), Op("RELU6", [5], [6]), Op("CONV_2D", [6, 3, 4], [7], conv)]
    return build(G(tensors, operators, [0], [7]))


MODELS = {"pointwise": (chain("TANH", "RELU", shape=(1, 9, 8, 3)), 2), "convolution": (convolution(), 7)}
"""Models by name, and the number of each one's output."""


@pytest.mark.parametrize("name", MODELS)
def test_frames_equal_single_runs(gpu: Device, name: str) -> None:
    """Bit by bit: each output is summed up in the same order, however many frames there are."""
    model, output = MODELS[name]
    api, frames = api_of(gpu), [RNG.random((1, 9, 8, 3), np.float32) for _ in range(N)]
    expected: list[Array] = []
    interpreter, delegate = resized(gpu, model, {})
    for frame in frames:
        interpreter.set_tensor(0, frame)
        interpreter.invoke()
        expected.append(values_of(delegate, interpreter, output))
    delegate.close()
    interpreter, delegate = resized(gpu, model, {0: (N, 9, 8, 3)})
    size = expected[0].size
    results = (
        [api.new_buffer(np.zeros(size, np.float32)) for _ in frames],
        api.new_buffer(np.zeros(size * N, np.float32)),
    )
    for inputs in ([api.new_buffer(frame) for frame in frames], api.new_buffer(np.concatenate(frames))):
        for outputs in results:
            delegate.bind_buffer_to_tensor(inputs, 0)
            delegate.bind_buffer_to_tensor(outputs, output)
            delegate.record()
            with fb.transfer_guard("disallow"):
                interpreter.invoke()
            np.testing.assert_array_equal(values_of(delegate, interpreter, output), np.concatenate(expected))
    delegate.close()


def test_textures_are_sampled_each_in_its_own_region(gpu: Device) -> None:
    api, picture = api_of(gpu), RNG.integers(0, 256, (8, 10, 4), np.uint8)
    interpreter, delegate = resized(gpu, chain("NEG"), {0: (2, 4, 5, 3)})
    camera, results = api.new_texture(picture), [api.new_texture(np.zeros((4, 5, 4), np.uint8)) for _ in range(2)]
    delegate.bind_buffer_to_tensor(results, 1, mean=1.0)
    for corners in (((0, 0), (5, 4)), ((1, 3), (2, 2))):
        delegate.bind_buffer_to_tensor([camera] * 2, 0, crop=[(x, y, 5, 4) for x, y in corners])
        interpreter.invoke()
        for result, (x, y) in zip(values_of(delegate, interpreter, 1), corners, strict=True):
            np.testing.assert_allclose(result, picture[y : y + 4, x : x + 5, :3] / -255, atol=1e-6)
    delegate.close()


def nv12() -> fb.YuvPicture:
    return fb.YuvPicture([RNG.integers(16, 235, (8, 12), np.uint8), RNG.integers(16, 240, (4, 6, 2), np.uint8)])


@pytest.mark.parametrize("gpu", ["gl"], indirect=True)
@pytest.mark.parametrize("make", [nv12, lambda: RNG.integers(0, 256, (9, 7, 3), np.uint8)], ids=["nv12", "uint8"])
def test_frames_of_video_are_sampled_one_by_one(gpu: Device, make: Callable[[], Any]) -> None:
    pictures, expected = [make() for _ in range(2)], list[Array]()
    interpreter, delegate = resized(gpu, chain("NEG"), {})
    for picture in pictures:
        delegate.bind_buffer_to_tensor(picture, 0)
        interpreter.invoke()
        expected.append(values_of(delegate, interpreter, 1))
    interpreter.resize_tensor_input(0, (2, 4, 5, 3))
    interpreter.allocate_tensors()
    delegate.bind_buffer_to_tensor(pictures, 0)
    interpreter.invoke()
    np.testing.assert_array_equal(values_of(delegate, interpreter, 1), np.concatenate(expected))
    delegate.close()


def test_other_objects_of_a_ring_record_nothing_anew(gpu: Device) -> None:
    api = api_of(gpu)
    interpreter, delegate = resized(gpu, chain("NEG"), {0: (2, 4, 5, 3)})
    rings = [[api.new_buffer(np.full(60, 10 * i + k, np.float32)) for k in range(2)] for i in range(2)]
    results = [api.new_buffer(np.zeros(60, np.float32)) for _ in range(2)]
    delegate.bind_buffer_to_tensor(results, 1)
    recorded: set[Any] = set()
    for number in (0, 1, 0):
        delegate.bind_buffer_to_tensor(rings[number], 0)
        interpreter.invoke()
        (program,) = delegate.engine.programs
        recorded.add(program.record())
        assert values_of(delegate, interpreter, 1)[:, 0, 0, 0].tolist() == [-10 * number, -10 * number - 1]
    assert len(recorded) == 1
    delegate.close()


def test_an_object_that_two_frames_write_is_refused_and_the_program_stays_usable(gpu: Device) -> None:
    api = api_of(gpu)
    interpreter, delegate = resized(gpu, chain("NEG"), {0: (2, 4, 5, 3)})
    ones, result = api.new_buffer(np.ones(60, np.float32)), api.new_buffer(np.zeros(60, np.float32))
    delegate.bind_buffer_to_tensor([ones] * 2, 0)
    delegate.bind_buffer_to_tensor([result] * 2, 1)
    with pytest.raises(fb.BindingError, match=r"tensor 1 't1' \(BHWC 2x4x5x3\) and to tensor 1, frame 1: bind"):
        interpreter.invoke()
    with pytest.raises(fb.BindingError, match="its first dimension is 2"):
        delegate.bind_buffer_to_tensor([result] * 3, 1)
    delegate.bind_buffer_to_tensor([result, api.new_buffer(np.zeros(60, np.float32))], 1)
    interpreter.invoke()
    assert (values_of(delegate, interpreter, 1) == -1).all()
    interpreter.resize_tensor_input(0, (3, 4, 5, 3))
    interpreter.allocate_tensors()
    with pytest.raises(fb.BindingError, match="cannot be bound to a list of 2: its first dimension is 3"):
        interpreter.invoke()
    delegate.unbind(1)
    delegate.bind_buffer_to_tensor([ones] * 3, 0)
    interpreter.invoke()
    assert (values_of(delegate, interpreter, 1) == -1).all()
    delegate.close()


@pytest.mark.parametrize(
    "traits, says",
    [
        ({"max_memories": 448, "max_textures": 512, "memories_per_float4": 2}, ""),
        ({"max_memories": 280, "max_textures": 512, "memories_per_float4": 2}, "32 textures, and one kernel has room"),
        ({"max_memories": 448, "max_textures": 31}, "it uses 32 textures, and one kernel takes 31 at most"),
        ({"max_memories": 16, "max_textures": 64}, ""),
    ],
)
def test_frames_are_one_dispatch_if_a_kernel_takes_as_many_objects(traits: dict[str, int], says: str) -> None:
    program = program_of(32, lambda: texture(64, 48))
    found = why_not_one(program.record().steps, replace(NullDevice().traits, **traits))
    assert says in found and bool(says) == bool(found)


def test_copies_of_frames_wait_for_nothing_and_are_one_kernel() -> None:
    commands = program_of(N, lambda: texture(64, 48)).record()
    assert [step.label for step in commands.steps] == ["0 COPY ", "1 COPY ", "2 COPY ", "3 NEG 0"]
    assert len({id(step.kernel) for step in commands.steps[:N]}) == 1 and commands.barriers == 1


def program_of(frames: int, make: Callable[[], NullResource]) -> Program:
    """A NEG of so many frames on the null device, with an object for each; its output is one buffer."""
    subgraph, device = read_model(chain("NEG")).subgraphs[0], NullDevice()
    shape = (frames, 4, 5, 3)
    claims = claim(subgraph, lambda: device.traits.target, shapes={0: shape})
    graph = claims.graph(sorted(claims.nodes), subgraph.inputs, subgraph.outputs)
    program, info = Program(device, compile_program(graph, device.traits, "f32")), claims.tensors[0]
    program.bind(0, negotiated(device, [make() for _ in range(frames)], info, 0, write=False, mapping=TextureMapping()))
    program.bind(1, Binding(buffer(math.prod(shape) * 4), Dense(shape)))
    return program
