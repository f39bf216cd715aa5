"""The road of a video's frames to the model: as textures of OpenGL, or as the decoder's planes of luma and chroma."""

from __future__ import annotations

from importlib.util import find_spec

import framebind as fb

from ..apis import BY_NAME, DECODING, GL, is_decoding
from ..model_file import read_model_file
from ..models import find_model, names_bundle
from ..work import Work


def planes_api(work: Work) -> fb.Backend | None:
    """The API on which a work binds decoded planes, if it needs no texture of each frame; None if it does.

    CUDA, also by "auto" on NVIDIA's GPU, if only rows are saved; OpenGL if the CPU can paint the task's video. Saved
    masks follow the edges of pictures if these are drawn: only "cuda" by name does without. A task of pairs binds the
    last two frames of NVDEC, which are valid if none is left out; elsewhere the frame before is a texture. The networks
    of a bundle look at a frame several times: as a texture it is uploaded once.
    """
    task = work.video_task
    if task.finder is None or task.hides:
        return None
    backend, is_painted, is_masked = work.options.backend, "video" in work.save, "masks" in work.save
    if task.has_pairs and (work.every > 1 or not is_decoding(backend)):
        return None
    is_auto = backend == "auto"
    # Frames for CUDA, also those of cameras, come by PyAV: "auto" is another API without it.
    may_be_cuda = not is_painted and not (is_auto and (is_masked or find_spec("av") is None))
    if may_be_cuda and is_decoding(backend):
        return DECODING
    if is_masked or names_bundle(work.model_name):
        return None
    if not task.is_painted or (is_painted and work.suffix not in fb.video.VideoWriter.suffixes):
        return None
    if is_painted and not _is_painted(work):
        return None
    return GL if is_auto or BY_NAME[backend] is GL else None


def _is_painted(work: Work) -> bool:
    """Whether the CPU can paint the picture of the work's model."""
    paints = work.video_task.paints
    return paints is None or paints(read_model_file(find_model(work.model_name), work.options.further))


def is_on_cuda(work: Work) -> bool:
    """True if a work is done on CUDA, where the decoder's frames are bound and none comes to the CPU."""
    return planes_api(work) is DECODING


def takes_planes(work: Work, source: fb.video.Source, api: fb.Backend | None, *, software: bool) -> bool:
    """True if planes of this source are bound, if ``api`` is ``planes_api(work)``.

    On OpenGL only those of video files: other sources give no luma and chroma. A GPU draws masks faster than the CPU
    paints them; ``software`` says that OpenGL runs on the CPU.
    """
    if api is not GL:
        return api is not None
    if "masks" in work.video_task.saves and "video" in work.save and not software:
        return False
    return source.decoder in ("cpu", "nvdec") and not source.live
