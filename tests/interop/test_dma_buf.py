"""DMA-BUFs as textures, and textures as DMA-BUFs. No driver of these machines has them: a recorder stands for EGL.

Names and numbers are those of the Khronos registry (EGL_EXT_image_dma_buf_import and _modifiers,
EGL_MESA_image_dma_buf_export).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, cast

import pytest

import framebind as fb
from framebind.interop.gl import dma_buf
from framebind.interop.gl.khronos import GL, signature
from support.egl_recorder import CONTEXT, DISPLAY, EGL_NONE, IMAGE, IMPORT, EglRecorder, open_descriptors


def import_by(
    recorder: EglRecorder,
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
        recorder = EglRecorder()
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
        recorder = EglRecorder()
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
            import_by(EglRecorder("create"), context)


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
        recorder = EglRecorder(extensions=IMPORT)
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
    assert signature("eglExportDMABUFImageMESA") == (ctypes.c_uint, *[ctypes.c_void_p] * 5)
    assert signature("eglExportDMABUFImageQueryMESA") == (ctypes.c_uint, *[ctypes.c_void_p] * 5)
    assert signature("eglDupNativeFenceFDANDROID") == (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def export_by(recorder: EglRecorder, context: fb.GlContext) -> tuple[int, dma_buf.DmaBuf]:
    """The name of a new texture, and the DMA-BUF that EGL makes of it."""
    texture = fb.GlTexture(8, 4)
    return texture.id, dma_buf.export_dma_buf(context, texture.id, cast("Any", recorder))


def close(exported: dma_buf.DmaBuf) -> None:
    for descriptor in exported.descriptors:
        os.close(descriptor)


def test_a_texture_is_exported_by_the_calls_of_the_specification() -> None:
    with fb.GlContext.headless() as context:
        recorder, before = EglRecorder(planes=[(True, 64, 128)], modifiers=[0x0300000000606014]), open_descriptors()
        texture, exported = export_by(recorder, context)
        assert (exported.fourcc, exported.modifier) == ("AB24", 0x0300000000606014)
        assert exported.planes == ((exported.descriptors[0], 64, 128),)
        close(exported)
        assert open_descriptors() == before
        assert recorder.calls == [
            ("create", DISPLAY, CONTEXT, 0x30B1, texture, [0x30BC, 0, EGL_NONE]),
            ("query", DISPLAY, IMAGE),
            ("modifiers", DISPLAY, IMAGE),
            ("export", DISPLAY, IMAGE),
            ("destroy", DISPLAY, IMAGE),
        ]


def test_planes_may_lie_in_the_memory_of_the_plane_before() -> None:
    unknown = (1 << 56) - 1  # DRM_FORMAT_MOD_INVALID
    with fb.GlContext.headless() as context:
        planes = [(True, 0, 32), (False, 4096, 8), (True, 16, 4), (False, 20, 2)]
        _, exported = export_by(EglRecorder(planes=planes, modifiers=[unknown] * 4), context)
        first, second = exported.descriptors
        assert first != second
        assert exported.planes == ((first, 0, 32), (first, 4096, 8), (second, 16, 4), (second, 20, 2))
        assert exported.modifier is None
        close(exported)


@pytest.mark.parametrize(
    "recorder",
    [
        EglRecorder("create"),
        EglRecorder("query"),
        EglRecorder("modifiers"),
        EglRecorder("export", planes=[(True, 0, 32), (True, 0, 32)], modifiers=[5, 5]),
        EglRecorder(planes=[(False, 0, 32)]),
        EglRecorder(planes=[]),
        EglRecorder(planes=[(True, 0, 32)] * 5),
        EglRecorder(planes=[(True, 0, 32)] * 2, modifiers=[5, 6]),
        EglRecorder(extensions=IMPORT),
    ],
    ids=["create", "query", "modifiers", "export", "no descriptor", "0 planes", "5 planes", "2 modifiers", "missing"],
)
def test_an_export_that_fails_leaves_no_descriptor_and_no_image(recorder: EglRecorder) -> None:
    with fb.GlContext.headless() as context:
        before = open_descriptors()
        with pytest.raises(fb.DeviceError, match=r"EGL|DMA-BUF|image of a texture"):
            export_by(recorder, context)
        assert open_descriptors() == before
        calls = [call[0] for call in recorder.calls]
        assert calls[-1:] in ([], ["create"], ["destroy"])
        assert ("destroy" in calls) is (len(calls) > 1)
