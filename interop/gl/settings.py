"""Settings of another library's context that would spoil what framebind draws, reads, uploads or computes there.

``SETTINGS`` is the table: the settings of each kind of work, and the values that the work needs. state.py sets them
for the length of a block and puts the host's values back. A context of framebind's own has GL's defaults, as far as the
user does not change them: there, nothing is asked or set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from .api import GlApi
from .context import GlContext
from .khronos import GL

Work = Literal["program", "draw", "copy", "read", "upload"]
"""The use of a program, drawing triangles, copying pixels on the GPU, reading pixels, uploading pixels."""


@dataclass(frozen=True)
class Setting:
    """A variable of GL's state that a host may have set."""

    name: str
    get: Callable[[GlApi], Any]
    set: Callable[[GlApi, Any], None]
    needed: Any
    exists: Callable[[GlContext], bool] = lambda context: True


# Where a setting exists -----------------------------------------------------------------------------------------------


def _on_desktop(context: GlContext) -> bool:
    return not context.is_es


def _in_compatibility(context: GlContext) -> bool:
    """Whether the context has the profile with the fixed functions. (No other one has their enumerants.)"""
    return not context.is_es and bool(
        context.gl.integer(GL.CONTEXT_PROFILE_MASK) & GL.CONTEXT_COMPATIBILITY_PROFILE_BIT
    )


def _with_extension(name: str) -> Callable[[GlContext], bool]:
    return lambda context: name in context.extensions


def _with_clip_control(context: GlContext) -> bool:
    if context.is_es:
        return "GL_EXT_clip_control" in context.extensions
    return context.version >= (4, 5) or "GL_ARB_clip_control" in context.extensions


def _with_clip_distance(number: int) -> Callable[[GlContext], bool]:
    def exists(context: GlContext) -> bool:
        if context.is_es and "GL_EXT_clip_cull_distance" not in context.extensions:
            return False
        return number < context.gl.integer(GL.MAX_CLIP_DISTANCES)

    return exists


# Kinds of settings ----------------------------------------------------------------------------------------------------


def _capability(name: str, enumerant: int, exists: Callable[[GlContext], bool]) -> Setting:
    """A setting of glEnable and glDisable, which must be off."""
    return Setting(
        name,
        get=lambda gl: bool(gl.glIsEnabled(enumerant)),
        set=lambda gl, on: (gl.glEnable if on else gl.glDisable)(enumerant),
        needed=False,
        exists=exists,
    )


def _clamping(name: str, target: int, exists: Callable[[GlContext], bool]) -> Setting:
    return Setting(
        name,
        get=lambda gl: gl.integer(target),
        set=lambda gl, value: gl.glClampColor(target, value),
        needed=GL.FIXED_ONLY,
        exists=exists,
    )


def _transfer(name: str, needed: float) -> Setting:
    """A number that the fixed functions apply to each pixel that is read or uploaded."""
    enumerant = getattr(GL, name)
    return Setting(
        f"GL_{name}",
        get=partial(_float, name=enumerant),
        set=lambda gl, value: gl.glPixelTransferf(enumerant, value),
        needed=needed,
        exists=_in_compatibility,
    )


def _float(gl: GlApi, name: int) -> float:
    value = ctypes.c_float()
    gl.glGetFloatv(name, ctypes.byref(value))
    return value.value


def _feedback_runs(gl: GlApi) -> bool:
    return bool(gl.integer(GL.TRANSFORM_FEEDBACK_ACTIVE)) and not gl.integer(GL.TRANSFORM_FEEDBACK_PAUSED)


def _run_feedback(gl: GlApi, runs: bool) -> None:
    (gl.glResumeTransformFeedback if runs else gl.glPauseTransformFeedback)()


def _set_clip_control(gl: GlApi, value: tuple[int, int]) -> None:
    (gl.glClipControlEXT if "OpenGL ES" in gl.version else gl.glClipControl)(*value)


def _window_rectangles(gl: GlApi) -> tuple[int, tuple[int, ...]]:
    """Mode, and x, y, width and height of each rectangle."""
    values, box = list[int](), (ctypes.c_int * 4)()
    for index in range(gl.integer(GL.NUM_WINDOW_RECTANGLES_EXT)):
        gl.glGetIntegeri_v(GL.WINDOW_RECTANGLE_EXT, index, box)
        values += box
    return gl.integer(GL.WINDOW_RECTANGLE_MODE_EXT), tuple(values)


def _set_window_rectangles(gl: GlApi, value: tuple[int, tuple[int, ...]]) -> None:
    mode, values = value
    gl.glWindowRectanglesEXT(mode, len(values) // 4, (ctypes.c_int * len(values))(*values))


# The table ------------------------------------------------------------------------------------------------------------

_FEEDBACK = Setting("transform feedback", _feedback_runs, _run_feedback, needed=False)
"""Transform feedback, which is paused: while it runs, GL refuses another program. The host's program is put back
before it runs on.
"""
_CLIP_CONTROL = Setting(
    "glClipControl",
    get=lambda gl: (gl.integer(GL.CLIP_ORIGIN), gl.integer(GL.CLIP_DEPTH_MODE)),
    set=_set_clip_control,
    needed=(GL.LOWER_LEFT, GL.NEGATIVE_ONE_TO_ONE),
    exists=_with_clip_control,
)
_WINDOW_RECTANGLES = Setting(
    "glWindowRectanglesEXT",
    get=_window_rectangles,
    set=_set_window_rectangles,
    needed=(GL.EXCLUSIVE_EXT, ()),
    exists=_with_extension("GL_EXT_window_rectangles"),
)
_PACK_INVERT = Setting(
    "GL_PACK_INVERT_MESA",
    get=lambda gl: gl.integer(GL.PACK_INVERT_MESA),
    set=lambda gl, value: gl.glPixelStorei(GL.PACK_INVERT_MESA, value),
    needed=0,
    exists=_with_extension("GL_MESA_pack_invert"),
)
_TRANSFER = (
    *(_transfer(f"{channel}_SCALE", 1.0) for channel in ("RED", "GREEN", "BLUE", "ALPHA")),
    *(_transfer(f"{channel}_BIAS", 0.0) for channel in ("RED", "GREEN", "BLUE", "ALPHA")),
    _transfer("MAP_COLOR", 0.0),
)
SETTINGS: dict[Work, tuple[Setting, ...]] = {
    "program": (_FEEDBACK,),
    "draw": (
        _CLIP_CONTROL,
        *(_capability(f"GL_CLIP_DISTANCE{i}", GL.CLIP_DISTANCE0 + i, _with_clip_distance(i)) for i in range(8)),
        _capability("GL_POLYGON_SMOOTH", GL.POLYGON_SMOOTH, _on_desktop),
        _capability("GL_ALPHA_TEST", GL.ALPHA_TEST, _in_compatibility),
        _capability("GL_POLYGON_STIPPLE", GL.POLYGON_STIPPLE, _in_compatibility),
        _clamping("GL_CLAMP_FRAGMENT_COLOR", GL.CLAMP_FRAGMENT_COLOR, _in_compatibility),
        _WINDOW_RECTANGLES,
    ),
    "copy": (_WINDOW_RECTANGLES,),
    "read": (_clamping("GL_CLAMP_READ_COLOR", GL.CLAMP_READ_COLOR, _on_desktop), _PACK_INVERT, *_TRANSFER),
    "upload": _TRANSFER,
}


def settings_of(context: GlContext, work: Work) -> tuple[Setting, ...]:
    """The settings of a kind of work that this context has."""
    known = context.settings.get(work)
    if known is None:
        known = context.settings[work] = tuple(setting for setting in SETTINGS[work] if setting.exists(context))
    return known
