"""Decoders on a GPU, by FFmpeg: which it takes, and their options."""

from __future__ import annotations

from typing import Any

from .pyav import load_av

COLOURS = ("colorspace", "color_range", "color_primaries", "color_trc")
"""Attributes of a decoder that say what colours its frames have."""
_ACCELERATED = {"hwaccel_flags": "unsafe_output", "extra_hw_frames": "8"}
"""FFmpeg's options of a decoder on the GPU. It would copy each frame to memory of its own, as a decoder has few
surfaces; these are given back soon: ``nvdec.AHEAD`` and three are held.
"""
_AHEAD = {"has_b_frames": "2"}
"""FFmpeg's option of a decoder of H.264 on the GPU that is not live: each frame comes out two frames late, as in a
video with B-frames, so that the GPU has others to decode while somebody waits for one. Without it FFmpeg waits for each
frame before it sends the next. One session decoded 615 frames/s, not 554, and with selfie_segmentation 505, not 384
(one H200, 2026-11-22).
"""
_OF_FFMPEG = {"libdav1d": "av1"}
"""FFmpeg's own decoders, which GPUs accelerate, of codecs for which it prefers others on the CPU."""


def accelerated(context: Any, accelerator: Any, *, live: bool) -> Any:
    """The decoder on the GPU for that of a container (av.CodecContext), with its options. It is not open yet.

    Raises RuntimeError if there is none.
    """
    if not context.is_hwaccel:
        context = _by_ffmpeg(context, accelerator)
    context.thread_count, context.options = 1, accelerated_options(context.name, live=live)
    return context


def accelerated_options(codec: str, *, live: bool) -> dict[str, str]:
    """FFmpeg's options of a decoder on the GPU."""
    return _ACCELERATED | _AHEAD if codec == "h264" and not live else _ACCELERATED


def _by_ffmpeg(preferred: Any, accelerator: Any) -> Any:
    """FFmpeg's own decoder in place of a preferred one. Raises RuntimeError if there is none."""
    name = _OF_FFMPEG.get(preferred.name)
    if name is None:
        raise RuntimeError(f"no GPU accelerates FFmpeg's decoder {preferred.name}")
    codec = load_av().CodecContext.create(name, "r", hwaccel=accelerator)
    # A container may say what the video does not. PyAV has set the GPU's format, with which FFmpeg's decoder of AV1
    # would ask for no accelerator.
    for known in ("extradata", "width", "height", "pix_fmt", *COLOURS):
        setattr(codec, known, getattr(preferred, known))
    return codec
