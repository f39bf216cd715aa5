"""Compares decoders of one video: FFmpeg's on the CPU, with several inverse cosine transforms, and NVDEC.

    python benchmarks/video/decoders.py mpeg4 mpeg2video mpeg1video libx264

MPEG-1, 2 and 4 say how exact an inverse transform must be, not what it rounds to, so that decoders differ by a little
which grows until the next key frame. H.264 and later codecs have one of whole numbers: there all decoders agree. A clip
of 60 frames of the bundled photograph, which moves, is encoded (key frames by the encoder's habit, or one alone with
``--key-frames 250``). Printed are the differences of luma from FFmpeg's usual transform, in steps of 255: the largest,
the mean of the frame that differs most, and the largest in the first frame.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import av
import cv2
import numpy as np
import numpy.typing as npt
import typer

import framebind as fb
from framebind.video.assets import PHOTOGRAPH

SIZE, FRAMES = (640, 480), 60
TRANSFORMS = ("int", "xvid", "faani")
"""FFmpeg's names of inverse transforms beside its usual one for these codecs, "simple"."""
Luma = npt.NDArray[np.int16]


def write_clip(path: Path, codec: str, options: dict[str, str]) -> None:
    """Write the clip: the photograph moves by three columns and a row per frame."""
    photograph = cv2.imread(str(PHOTOGRAPH))
    assert photograph is not None
    wide = cv2.resize(photograph, (SIZE[0] + 4 * FRAMES, SIZE[1] + 2 * FRAMES))
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = *SIZE, "yuv420p", 2_000_000
        for number in range(FRAMES):
            part = wide[number : number + SIZE[1], 3 * number : 3 * number + SIZE[0]]
            picture: Any = np.ascontiguousarray(part)
            frame = av.VideoFrame.from_ndarray(picture, format="bgr24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def by_cpu(path: Path, options: dict[str, str]) -> Iterator[Luma]:
    """Luma of each frame by FFmpeg on the CPU."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.options = options
        for frame in container.decode(stream):
            yield host_luma(frame.planes[0])


def by_nvdec(path: Path) -> Iterator[Luma]:
    """Luma of each frame by NVDEC, in the current CudaContext. Raises SourceError if it does not decode the video."""
    with fb.open_source(path, decoder="nvdec") as source:
        for frame in source.frames():
            yield frame.planes.planes[0].read(reason="comparison").astype(np.int16)


def host_luma(plane: Any) -> Luma:
    """A plane of PyAV without its padding."""
    return np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:, : SIZE[0]].astype(np.int16)


def difference(frames: Iterator[Luma], usual: list[Luma]) -> str:
    """The figures in words."""
    apart = [np.abs(one - other) for one, other in zip(frames, usual, strict=True)]
    mean = max(float(each.mean()) for each in apart)
    return f"largest {max(int(each.max()) for each in apart)}, mean {mean:.3f}, first frame {int(apart[0].max())}"


def main(
    codecs: Annotated[list[str], typer.Argument(help="Names of FFmpeg's encoders.")],
    key_frames: Annotated[int | None, typer.Option(help="Frames from one key frame to the next.")] = None,
    quarter: Annotated[bool, typer.Option("--quarter", help="Let MPEG-4 move by quarters of a pixel.")] = False,
) -> None:
    """Print a line for each codec and decoder."""
    options = ({} if key_frames is None else {"g": str(key_frames)}) | ({"flags": "+qpel"} if quarter else {})
    with tempfile.TemporaryDirectory() as folder:
        for codec in codecs:
            path = Path(folder) / f"{codec}.mkv"
            write_clip(path, codec, options)
            usual = list(by_cpu(path, {}))
            if codec.startswith("mpeg"):
                for name in TRANSFORMS:
                    print(f"{codec}, CPU, {name}: {difference(by_cpu(path, {'idct': name}), usual)}")
            try:
                with fb.cuda.CudaContext() as context:
                    print(f"{codec}, NVDEC, {context.name}: {difference(by_nvdec(path), usual)}")
            except (fb.DeviceError, fb.SourceError) as error:
                print(f"{codec}, NVDEC: {error}")


if __name__ == "__main__":
    typer.run(main)
