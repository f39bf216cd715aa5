"""The errors that the library raises. Each message says what failed, names the object, and says what to do next."""

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


class DeviceError(FramebindError):
    """A GPU context or device is missing, lost, not the object's own, or used from the wrong thread.

    Examples
    --------
    >>> fb.GlContext.current()
    Traceback (most recent call last):
    framebind.interop.errors.DeviceError: no GL context is current on this thread: ...
    """


class KernelError(FramebindError):
    """A kernel did not compile.

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


class BindingError(FramebindError):
    """An object cannot be bound to a tensor (kind, size, format, released), or a bound tensor is used the wrong way.

    Examples
    --------
    >>> with fb.GlContext.headless():
    ...     fb.GlTexture(8, 8, "rgb8")
    Traceback (most recent call last):
    framebind.interop.errors.BindingError: there is no texture format 'rgb8': ...
    """


class TransferError(FramebindError):
    """A copy between host and GPU was attempted under ``transfer_guard("disallow")``. Names direction and reason.

    Examples
    --------
    >>> with fb.GlContext.headless(), fb.transfer_guard("disallow"):
    ...     fb.GlTexture.from_array(np.zeros((2, 2), np.uint8))
    Traceback (most recent call last):
    framebind.interop.errors.TransferError: upload of 4 bytes between host and GPU: texture upload. ...
    """


class DelegateError(FramebindError):
    """The delegate cannot be applied: unknown LiteRT ABI, applied twice, wrong options, or a failure inside LiteRT.

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
