"""Other libraries that do the same work: OpenCV with LiteRT on the CPU and the GPU, and NVDEC with PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from sessions import Array, MakeSession, Model, input_size, opened, scaled

import framebind as fb
from framebind.video.models import find_model

THREADS = 2
"""Threads of each of LiteRT's CPU interpreters."""
AHEAD = 3
"""Frames whose models may still run when PyTorch is given the next one."""


class WithOpenCv:
    """OpenCV decodes and scales on the CPU; a subclass runs the model."""

    def __init__(self, model: Model) -> None:
        self._model, self._size = model, input_size(model)
        self.outputs: list[Array] | None = None
        self.count = 0

    def warm_up(self, clip: Path) -> None:
        self.outputs = self._invoke(scaled(np.zeros((8, 8, 3), np.uint8), self._model))

    def run(self, clip: Path) -> int:
        capture = cv2.VideoCapture(str(clip))
        try:
            while True:
                found, frame = capture.read()
                if not found:
                    return self.count
                small = cv2.resize(frame, self._size[::-1], interpolation=cv2.INTER_LINEAR)
                rgb = cv2.cvtColor(small, cv2.COLOR_BGR2RGB).astype(np.float32)
                self.outputs = self._invoke(((rgb / 255 - self._model.mean) / self._model.std)[None])
                self.count += 1
        finally:
            capture.release()

    def _invoke(self, given: Array) -> list[Array]:
        raise NotImplementedError

    def close(self) -> None:
        """Free nothing: this peer holds nothing."""


class LiteRtCpu(WithOpenCv):
    """LiteRT's CPU interpreter, which is XNNPACK."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._interpreter = fb.Interpreter(find_model(model.name), delegate="cpu", num_threads=THREADS)
        self._interpreter.allocate_tensors()

    def _invoke(self, given: Array) -> list[Array]:
        self._interpreter.set_tensor(self._interpreter.inputs()[0], given)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(tensor) for tensor in self._interpreter.outputs()]


class LiteRtGpu(WithOpenCv):
    """LiteRT's own GPU accelerator (CompiledModel), with its defaults."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        from ai_edge_litert.compiled_model import CompiledModel
        from ai_edge_litert.hardware_accelerator import HardwareAccelerator

        self._compiled = CompiledModel.from_file(str(find_model(model.name)), HardwareAccelerator.GPU)
        self._written, self._read = self._compiled.create_input_buffers(0), self._compiled.create_output_buffers(0)
        signature = self._compiled.get_signature_by_index(0)
        details = self._compiled.get_output_tensor_details(signature["key"])
        self._sizes = [int(np.prod(details[name]["shape"])) for name in signature["outputs"]]

    def _invoke(self, given: Array) -> list[Array]:
        self._written[0].write(given.astype(np.float32))
        self._compiled.run_by_index(0, self._written, self._read)
        return [buffer.read(size, np.float32) for buffer, size in zip(self._read, self._sizes, strict=True)]


class _Plane:
    """A plane of PyAV's, whose DLPack takes no stream: FFmpeg's is the legacy default stream."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def __dlpack_device__(self) -> Any:
        return self._plane.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self._plane.__dlpack__()


_capturing = ThreadPoolExecutor(1)
"""The thread that captures all graphs: there cuDNN looks for its fastest kernels once, as it keeps them by thread."""


class NvdecTorch:
    """NVDEC by PyAV, and PyTorch in float16: colours, scaling and the model as one CUDA graph per session.

    A surface is copied to the place that the graph reads, on the GPU. The outputs stay there, but for the last.
    """

    def __init__(self, model: Model) -> None:
        import torch
        from torch_graph import TorchGraph

        torch.backends.cudnn.benchmark = True
        self._torch, self._model = torch, model
        self._context = fb.cuda.CudaContext(independent=True)  # for NVDEC: PyTorch's is the same primary context
        self._stream = torch.cuda.Stream()
        content = find_model(model.name).read_bytes()
        self._graph_of = TorchGraph(content, torch.float16, "cuda")
        self._size = input_size(model)
        self.outputs: list[Array] | None = None
        self.count = 0

    def warm_up(self, clip: Path) -> None:
        _capturing.submit(self._capture, clip).result()

    def _capture(self, clip: Path) -> None:
        torch = self._torch
        with opened(clip, self._context) as container, torch.no_grad():
            frame = next(container.decode(video=0))
            self._planes = [torch.empty_like(each) for each in self._given(frame)]
            with torch.cuda.stream(self._stream):
                for _ in range(3):
                    self._results = self._compute()
                self._stream.synchronize()
                self._graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self._graph, stream=self._stream, capture_error_mode="thread_local"):
                    self._results = self._compute()

    def _given(self, frame: Any) -> list[Any]:
        return [self._torch.from_dlpack(_Plane(plane)) for plane in frame.planes]

    def _compute(self) -> Any:
        torch, (luma, chroma) = self._torch, self._planes
        scale = {"size": self._size, "mode": "bilinear", "align_corners": False}
        y = torch.nn.functional.interpolate(luma[None, None].half(), **scale)
        uv = torch.nn.functional.interpolate(chroma.permute(2, 0, 1)[None].half(), **scale)
        y, u, v = (y - 16) / 219, (uv[:, :1] - 128) / 224, (uv[:, 1:] - 128) / 224
        rgb = torch.cat([y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u], 1).clamp(0, 1)
        return self._graph_of(((rgb - self._model.mean) / self._model.std).permute(0, 2, 3, 1))

    def run(self, clip: Path) -> int:
        torch, held = self._torch, deque[tuple[Any, Any]]()
        with opened(clip, self._context) as container, torch.no_grad(), torch.cuda.stream(self._stream):
            for frame in container.decode(video=0):
                self._stream.wait_stream(torch.cuda.default_stream())  # FFmpeg's
                for place, given in zip(self._planes, self._given(frame), strict=True):
                    place.copy_(given, non_blocking=True)
                self._graph.replay()
                event = torch.cuda.Event(blocking=True)
                event.record(self._stream)
                held.append((event, frame))
                if len(held) > AHEAD:
                    held.popleft()[0].synchronize()
                self.count += 1
            self._stream.synchronize()
            self.outputs = [each.float().cpu().numpy() for each in self._results]
        return self.count

    def close(self) -> None:
        self._context.close()


PEERS: dict[str, MakeSession] = {"nvdec-torch": NvdecTorch, "cv2-litert-cpu": LiteRtCpu, "cv2-litert-gpu": LiteRtGpu}
"""Ways by name."""
ON_THE_CPU = ("cv2-litert-cpu", "cv2-litert-gpu")
"""Peers that decode on the CPU, and work there under Python's lock."""
