"""The choice of a video's codec and of its encoder, with the encoder's options."""

from __future__ import annotations

from typing import Any

from ...errors import SourceError
from ..decode.pyav import load_av

CODECS = {
    "h264": ("libx264", {"crf": "20", "preset": "veryfast"}), "hevc": ("libx265", {"crf": "24", "preset": "veryfast"}),
    "av1": ("libsvtav1", {"crf": "32", "preset": "9"}), "vp9": ("libvpx-vp9", {"crf": "32", "b": "0", "row-mt": "1"}),
    "prores": ("prores_ks", {"profile": "3"}), "gif": ("gif", {}),
    "mjpeg": ("mjpeg", {"qmin": "2", "qmax": "2"}),
    "h264_nvenc": ("h264_nvenc", {"cq": "23", "preset": "p4"}),
    "hevc_nvenc": ("hevc_nvenc", {"cq": "26", "preset": "p4"}),
    "av1_nvenc": ("av1_nvenc", {"cq": "30", "preset": "p4"}),
}  # fmt: skip
"""Encoders and their options, by the name of their format. Quality is each encoder's usual "visually near"."""
NVENC = "_nvenc"
"""The end of the names of encoders on NVIDIA's GPUs."""
BY_SUFFIX = {".mp4": "h264", ".mov": "h264", ".mkv": "h264", ".webm": "vp9", ".gif": "gif", ".avi": "mjpeg"}
"""The codec of a file whose codec is not named, by its suffix."""
WITH_ALPHA = {".mov": "prores", ".mkv": "vp9", ".webm": "vp9"}
"""The codecs that keep alpha, by the suffix of their files: ProRes 4444, and VP9 with a second picture for alpha."""
_PIXELS_WITH_ALPHA = {"prores": "yuva444p10le", "vp9": "yuva420p"}
_OPTIONS_WITH_ALPHA = {"prores": {"profile": "4"}}
_PIXELS = {"prores": "yuv422p10le", "gif": "rgb8", "mjpeg": "yuvj420p"}
"""The pixel formats of codecs whose encoders do not take yuv420p, or have a better one."""
WITHOUT_QUALITY = ("prores", "gif", "mjpeg")
_QUIET = {"libx265": {"x265-params": "log-level=none"}}


def chosen_codec(name: str | None, suffix: str, *, alpha: bool = False) -> str:
    """The name of a codec: the given one, or that of a file's suffix.

    Raises SourceError if there is none, or if it does not keep the wanted alpha.
    """
    codec = name or (WITH_ALPHA if alpha else BY_SUFFIX).get(suffix.lower(), "")
    if alpha and WITH_ALPHA.get(suffix.lower()) != codec:
        known = ", ".join(f"{suffix} ({codec})" for suffix, codec in WITH_ALPHA.items())
        raise SourceError(f"{f'{name} in ' if name else ''}{suffix} keeps no alpha: {known} and .png do")
    if codec not in CODECS:
        raise SourceError(f"there is no codec '{codec}': take one of {', '.join(CODECS)}")
    return codec


def encoder_of(codec: str, quality: int | None, *, alpha: bool = False) -> tuple[str, dict[str, str]]:
    """The name and the options of FFmpeg's encoder. ``quality`` is its rate factor; None for the usual one.

    Raises SourceError if the codec has none to choose.
    """
    encoder, options = CODECS[codec]
    options = {**options, **_QUIET.get(encoder, {}), **(_OPTIONS_WITH_ALPHA.get(codec, {}) if alpha else {})}
    if quality is not None:
        if codec in WITHOUT_QUALITY:
            raise SourceError(f"{codec} has no quality to choose: leave it out")
        options["cq" if codec.endswith(NVENC) else "crf"] = str(quality)
    return encoder, options


def pixel_format_of(codec: str, *, alpha: bool = False) -> str:
    """FFmpeg's name of the pixel format that the encoder gets."""
    return _PIXELS_WITH_ALPHA[codec] if alpha else _PIXELS.get(codec, "yuv420p")


def open_nvenc(context: Any, name: str) -> None:
    """Open an encoder of NVENC (av.VideoCodecContext) now, as it may not be there. Raises SourceError."""
    av = load_av()
    try:
        context.open(strict=False)
    except av.error.FFmpegError as error:
        raise SourceError(
            f"{name} needs NVENC, and it does not open ({error.strerror or error}): it is in GPUs of NVIDIA that "
            "have an encoder for this format, as GeForce, L4 and L40S do, and A100, H100 and H200 do not; "
            f"'{name.removesuffix(NVENC)}' encodes on the CPU"
        ) from error
