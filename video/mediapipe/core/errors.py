"""Errors of tasks: framebind's own, and of the types that MediaPipe raises."""

from __future__ import annotations

import framebind as fb


class TaskError(fb.FramebindError, ValueError):
    """A task is used the wrong way: an option, a picture, a timestamp or the mode. MediaPipe raises ValueError."""


class MissingModelError(fb.ModelError, FileNotFoundError):
    """Error of a path of a model at which there is no file. MediaPipe raises FileNotFoundError."""


class UnsupportedError(fb.FramebindError, NotImplementedError):
    """The file or the option is sound, and this task does not do it. MediaPipe raises NotImplementedError."""
