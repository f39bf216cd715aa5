"""Ways to put a video through a model: NVDEC with framebind, and the decoder alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.codec.hwaccel import HWAccel
from av.video.reformatter import Colorspace

import framebind as fb
from framebind.interop.frames.decode.nvdec_codecs import accelerated_options
from framebind.video.models import find_model

Array = npt.NDArray[Any]


class Model(NamedTuple):
    """A model, and what its input is: (texel - mean) / std, with texels from 0 to 1. Frames are stretched to it."""

    name: str
    mean: float
    std: float


NO_MODEL = Model("", 0.0, 1.0)
MODELS = {
    "selfie": Model("selfie_segmentation", 0.0, 1.0),
    "face": Model("face_detection_front", 0.5, 0.5),
    "pose": Model("pose_landmark_lite", 0.0, 1.0),
}


class Session(Protocol):
    """One of several that run side by side, each on a thread of its own. ``outputs`` are the last frame's."""

    @property
    def outputs(self) -> list[Array] | None: ...
    def warm_up(self, clip: Path) -> None:
        """Compile what is to be compiled."""
        ...

    def run(self, clip: Path) -> int:
        """Process the clip; returns the number of frames."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Counted(Protocol):
    """A session that tells how many frames of this run it has done so far."""

    count: int


MakeSession = Callable[[Model], Session]


class DecodeOnly:
    """NVDEC by PyAV alone, as fast as it goes, in the GPU's primary context and with the options of framebind."""

    outputs: list[Array] | None = None
    count = 0

    def __init__(self, model: Model) -> None:
        self._context = fb.cuda.CudaContext(independent=True)

    def warm_up(self, clip: Path) -> None:
        with opened(clip, self._context) as container:
            next(container.decode(video=0))

    def run(self, clip: Path) -> int:
        for _ in self.frames(clip):
            self.count += 1
        return self.count

    def frames(self, clip: Path) -> Iterator[Any]:
        """The frames (av.VideoFrame), which stay on the GPU."""
        with opened(clip, self._context) as container:
            container.streams.video[0].codec_context.options = accelerated_options("h264", live=False)
            yield from container.decode(video=0)

    def close(self) -> None:
        self._context.close()


def opened(clip: Path, context: fb.cuda.CudaContext) -> Any:
    """A container whose video NVDEC decodes in a context."""
    options: dict[str, object] = {"primary_ctx": "0", "current_ctx": "1"}
    with context.entered():
        on_gpu = HWAccel("cuda", allow_software_fallback=False, is_hw_owned=True, options=options)
        container: Any = av.open(str(clip), hwaccel=on_gpu)
    container.streams.video[0].codec_context.thread_count = 1
    return container


class Framebind:
    """NVDEC's surfaces bound to a model on CUDA, in 16 bits. ``reads``: the outputs are read back, one frame later.

    ``keep`` is a folder of compiled programs, which the first session fills for the others.
    """

    def __init__(self, model: Model, *, reads: bool, keep: Path) -> None:
        self._model, self._reads = model, reads
        self._context = fb.cuda.CudaContext(independent=True)
        path = find_model(model.name)
        options = fb.GpuDelegateOptions(
            "cuda", is_precision_loss_allowed=True, serialization_dir=keep, model_token=model.name
        )
        self._delegate = fb.GpuDelegate(options)
        self._interpreter = fb.Interpreter(path, experimental_delegates=[self._delegate])
        self._interpreter.set_allow_buffer_handle_output(True)
        self._input, self._outputs = self._interpreter.inputs()[0], self._interpreter.outputs()
        self.outputs: list[Array] | None = None
        self.count = 0

    def warm_up(self, clip: Path) -> None:
        with fb.open_source(clip, decoder="nvdec", end=0.1) as source:
            for frame in source.frames():
                self._put(frame)
        self._read()

    def run(self, clip: Path) -> int:
        with fb.open_source(clip, decoder="nvdec") as source:
            for frame in source.frames():
                if self._reads and self.count:
                    self._read()  # of the frame before: the GPU was done with it while this one was decoded
                self._put(frame)
                self.count += 1
            self._read()
        return self.count

    def _put(self, frame: fb.Frame) -> None:
        mean, std = self._model.mean, self._model.std
        self._delegate.bind_buffer_to_tensor(frame, self._input, mean=mean, std=std)
        self._interpreter.invoke()

    def _read(self) -> None:
        for tensor in self._outputs:
            self._interpreter.ensure_tensor_data_is_readable(tensor)
        self.outputs = [self._interpreter.get_tensor(tensor) for tensor in self._outputs]

    def close(self) -> None:
        self._delegate.close()
        self._context.close()


# What is right --------------------------------------------------------------------------------------------------------


def last_inputs(clip: Path, model: Model) -> Array:
    """The model's input for the clip's last frame: FFmpeg makes RGB of it, OpenCV scales it."""
    with av.open(str(clip)) as container:
        (last,) = deque(container.decode(video=0), maxlen=1)
        rgb = last.reformat(format="rgb24", src_colorspace=Colorspace.ITU709)
        return scaled(rgb.to_ndarray(), model)


def scaled(rgb: Array, model: Model) -> Array:
    """A model's input of a picture of bytes (height, width, 3)."""
    height, width = input_size(model)
    small = cv2.resize(rgb, (width, height), interpolation=cv2.INTER_LINEAR)
    return ((small.astype(np.float32) / 255 - model.mean) / model.std)[None].astype(np.float32)


def input_size(model: Model) -> tuple[int, int]:
    """The height and width of a model's input."""
    detail: dict[str, Any] = fb.Interpreter(find_model(model.name), delegate="cpu").get_input_details()[0]
    _, height, width, _ = (int(n) for n in detail["shape"])
    return height, width


def litert_outputs(model: Model, given: Array) -> list[Array]:
    """The outputs that LiteRT's CPU kernels compute."""
    interpreter = fb.Interpreter(find_model(model.name), delegate="cpu")
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.inputs()[0], given)
    interpreter.invoke()
    return [interpreter.get_tensor(tensor) for tensor in interpreter.outputs()]


def mean_error(outputs: list[Array], expected: list[Array]) -> float:
    """The mean difference of the outputs, as a share of each one's largest value; the largest of all outputs."""
    return max(
        float(np.abs(output.ravel() - right.ravel()).mean() / max(np.abs(right).max(), 1e-6))
        for output, right in zip(outputs, expected, strict=True)
    )
