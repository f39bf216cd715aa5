"""DMA-BUFs as textures. No driver of these machines imports them, so a recorder stands for EGL's import.

Names and numbers are those of the Khronos registry (EGL_EXT_image_dma_buf_import and _modifiers).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, cast

import pytest

import framebind as fb
from framebind.interop.gl import dma_buf
from framebind.interop.gl.khronos import GL, signature

EXTENSIONS = "EGL_EXT_image_dma_buf_import EGL_EXT_image_dma_buf_import_modifiers"
DISPLAY, IMAGE, EGL_NONE = 71, 72, 0x3038


class Recorder:
    """EGL's functions; those that import are recorded, and succeed unless ``refuses``."""

    def __init__(self, refuses: bool = False, extensions: str = EXTENSIONS) -> None:
        self.calls = list[tuple[Any, ...]]()
        self._refuses, self._extensions = refuses, extensions

    def eglGetCurrentDisplay(self) -> int:  # noqa: N802
        return DISPLAY

    def eglQueryString(self, display: int, name: int) -> bytes:  # noqa: N802
        assert display == DISPLAY
        return self._extensions.encode()

    def eglCreateImage(self, *arguments: Any) -> int:  # noqa: N802
        display, context, target, buffer, attributes = arguments
        self.calls.append(("create", display, context, target, buffer, list(attributes)))
        return 0 if self._refuses else IMAGE

    def eglDestroyImage(self, display: int, image: int) -> None:  # noqa: N802
        self.calls.append(("destroy", display, image))

    def failed(self, what: str) -> fb.DeviceError:
        return fb.DeviceError(f"{what} failed with EGL_BAD_MATCH")


def import_by(
    recorder: Recorder,
    context: fb.GlContext,
    fourcc: str = "AB24",
    planes: Sequence[tuple[int, int, int]] = ((5, 64, 32),),
    modifier: int | None = None,
) -> fb.GlTexture:
    """The texture of 8 x 4 texels that an import makes: the recorder stands for EGL, plain storage for the memory."""
    gl, id = context.gl, context.objects.generate("texture")

    def storage(target: int, image: int, attributes: None) -> None:
        recorder.calls.append(("storage", target, image, attributes))
        gl.glTexStorage2D(GL.TEXTURE_2D, 1, GL.RGBA8, 8, 4)

    gl.glEGLImageTargetTexStorageEXT = storage
    dma_buf.import_dma_buf(context, id, (8, 4), fourcc, planes, modifier, cast("Any", recorder))
    return fb.GlTexture.from_id(id)


def test_the_attributes_are_those_of_the_specification() -> None:
    with fb.GlContext.headless() as context:
        recorder = Recorder()
        texture = import_by(recorder, context)
        assert (texture.size, texture.format) == ((8, 4), "rgba8")
        width_height_fourcc = [0x3057, 8, 0x3056, 4, 0x3271, 0x34324241]
        attributes = [*width_height_fourcc, 0x3272, 5, 0x3273, 64, 0x3274, 32, EGL_NONE]
        assert recorder.calls == [
            ("create", DISPLAY, None, 0x3270, None, attributes),
            ("storage", GL.TEXTURE_2D, IMAGE, None),
            ("destroy", DISPLAY, IMAGE),
        ]


def test_each_plane_has_its_modifier() -> None:
    with fb.GlContext.headless() as context:
        recorder = Recorder()
        import_by(recorder, context, "AB24", [(5, 0, 8), (6, 1, 9), (7, 2, 10), (8, 3, 11)], 0x0300000000606014)
        parts = 0x00606014, 0x03000000
        assert recorder.calls[0][-1][6:] == [
            0x3272, 5, 0x3273, 0, 0x3274, 8, 0x3443, parts[0], 0x3444, parts[1],
            0x3275, 6, 0x3276, 1, 0x3277, 9, 0x3445, parts[0], 0x3446, parts[1],
            0x3278, 7, 0x3279, 2, 0x327A, 10, 0x3447, parts[0], 0x3448, parts[1],
            0x3440, 8, 0x3441, 3, 0x3442, 11, 0x3449, parts[0], 0x344A, parts[1], EGL_NONE,
        ]  # fmt: skip


def test_a_refused_import_says_what_was_refused() -> None:
    with fb.GlContext.headless() as context:
        with pytest.raises(fb.DeviceError, match=r"8x4 'AB24' failed with EGL_BAD_MATCH"):
            import_by(Recorder(refuses=True), context)


@pytest.mark.parametrize(
    ("fourcc", "planes"),
    [("AB2", [(5, 0, 32)]), ("äB24", [(5, 0, 32)] * 5), ("AB24", []), ("AB24", [(-1, 0, 32)]), ("AB24", [(5, 0, 0)])],
)
def test_numbers_that_describe_no_picture_are_refused(fourcc: str, planes: list[tuple[int, int, int]]) -> None:
    with fb.GlContext.headless():
        with pytest.raises(fb.BindingError, match="DMA-BUF"):
            fb.GlTexture.from_dmabuf(8, 4, fourcc, planes)


def test_a_driver_that_cannot_import_is_named_with_what_it_lacks() -> None:
    with fb.GlContext.headless() as context:
        recorder = Recorder(extensions=EXTENSIONS.split()[0])
        import_by(recorder, context)
        with pytest.raises(fb.DeviceError, match="_modifiers: DMA-BUFs cannot be imported here"):
            import_by(recorder, context, modifier=0)


def test_memory_that_is_no_dma_buf_is_refused_and_leaves_no_texture() -> None:
    """Drivers that import refuse it, and the others say what they lack. The context stays usable."""
    with fb.GlContext.headless() as context, open("/dev/zero", "rb") as memory:
        before = context.objects.live["texture"]
        with pytest.raises(fb.DeviceError, match="DMA-BUF"):
            fb.GlTexture.from_dmabuf(8, 4, "AB24", [(memory.fileno(), 0, 32)])
        context.objects.drain()
        assert context.objects.live["texture"] == before
        fb.GlTexture(2, 2).read()


def test_the_signatures_are_known() -> None:
    assert signature("eglCreateImage")[0] is ctypes.c_void_p
    assert len(signature("glEGLImageTargetTexStorageEXT")) == 4
