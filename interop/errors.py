"""The errors that the library raises. Each message says what failed, names the object, and says what to do next.

LiteRT raises ValueError for arguments and files that it refuses, and RuntimeError if a delegate, an allocation or a run
fails. Errors that come out of an Interpreter or GpuDelegate are also those, so that a program that was written for
LiteRT catches them.
"""

from __future__ import annotations


class FramebindError(Exception):
    """The base of all errors of this library.

    Examples
    --------
    >>> try:
    ...     fb.Interpreter("missing.tflite")
    ... except fb.FramebindError as error:
    ...     print(type(error).__name__)
    ModelError
    """


class DeviceError(FramebindError, ValueError, RuntimeError):
    """A GPU context or device is missing, lost, not the object's own, or used from the wrong thread.

    Also a ValueError, as LiteRT's is if ``load_delegate`` finds no device, and a RuntimeError, as LiteRT's is if a
    delegate fails later.

    Examples
    --------
    >>> fb.GlContext.current()
    Traceback (most recent call last):
    framebind.interop.errors.DeviceError: no GL context is current on this thread: ...
    """


class KernelError(FramebindError, RuntimeError):
    """A kernel did not compile. Also a RuntimeError, as a failed run of LiteRT's is.

    Attributes
    ----------
    kernel, device : str
        The kernel and the device.
    log : str
        The compiler's log.
    text : str
        The source text; the message has it with line numbers.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     try:
    ...         fb.FragmentProgram("void main() { color = red; }")
    ...     except fb.KernelError as error:
    ...         "red" in error.log, "1 " in str(error)
    (True, True)
    """

    def __init__(self, kernel: str, device: str, log: str, text: str) -> None:
        numbered = "\n".join(f"{number:4d} {line}" for number, line in enumerate(text.splitlines(), 1))
        super().__init__(f"kernel '{kernel}' does not compile on {device}:\n{log.strip()}\n{numbered}")
        self.kernel, self.device, self.log, self.text = kernel, device, log, text


class ModelError(FramebindError, ValueError, RuntimeError):
    """The model file is damaged, missing, or describes something impossible. Names the operator or tensor at fault.

    LiteRT raises ValueError for a model that it cannot read, and RuntimeError for one that it cannot run: a program
    that was written for LiteRT catches this error as either.

    Examples
    --------
    >>> fb.Interpreter("picture.png")
    Traceback (most recent call last):
    framebind.interop.errors.ModelError: ...
    """


class BindingError(FramebindError, ValueError, RuntimeError, BufferError):
    """An object cannot be bound to a tensor (kind, size, format, released), or a bound tensor is used the wrong way.

    Also a ValueError, as LiteRT's is for a tensor or value that does not fit, a RuntimeError, as a failed run of
    LiteRT's is, and a BufferError, which DLPack wants if memory cannot be given out.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     fb.GlTexture(8, 8, "rgb8")
    Traceback (most recent call last):
    framebind.interop.errors.BindingError: there is no texture format 'rgb8': ...
    """


class TransferError(FramebindError, RuntimeError):
    """A copy between host and GPU was attempted under ``transfer_guard("disallow")``. Names direction and reason.

    Also a RuntimeError, as a failed run of LiteRT's is.

    Examples
    --------
    >>> with fb.GlContext.headless(), fb.transfer_guard("disallow"):
    ...     fb.GlTexture.from_array(np.zeros((2, 2), np.uint8))
    Traceback (most recent call last):
    framebind.interop.errors.TransferError: upload of 4 bytes between host and GPU: texture upload. ...
    """

    def __init__(self, copy: str, cure: str = "leave the copy out, or exempt this reason") -> None:
        """``copy`` names direction, bytes and reason; ``cure`` says what to do."""
        super().__init__(copy, cure)
        self.copy = copy

    def __str__(self) -> str:
        return f"{self.copy}. transfer_guard('disallow') is on: {self.args[1]}"


class DelegateError(FramebindError, ValueError, RuntimeError):
    """The delegate cannot be applied: unknown LiteRT ABI, applied twice, wrong options, or a failure inside LiteRT.

    Also a ValueError, as LiteRT's is if a delegate cannot be loaded, and a RuntimeError, as LiteRT's is if it cannot be
    applied.

    Examples
    --------
    >>> fb.GpuDelegateOptions(backend="metal")
    Traceback (most recent call last):
    framebind.interop.errors.DelegateError: ...
    """


class SourceError(FramebindError):
    """A camera, file or sink cannot be opened, read or written, or OpenCV cannot be loaded.

    Examples
    --------
    >>> fb.open_source("missing.mp4")
    Traceback (most recent call last):
    framebind.interop.errors.SourceError: there is no file or folder 'missing.mp4': ...
    """


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Write a number with its noun: "1 operator", "2 operators". ``nouns`` is the plural, if s does not make it."""
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"
