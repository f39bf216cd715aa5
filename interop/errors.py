"""Every error that the library raises. Each message says what failed, which object it was, and what to do next."""

from __future__ import annotations


class FramebindError(Exception):
    """The base of all errors of this library."""


class DeviceError(FramebindError):
    """A GPU context or device is missing, lost, foreign to the object used with it, or used from the wrong thread."""


class KernelError(FramebindError):
    """A kernel did not compile. Carries the kernel's name, the compiler's log and the numbered source text."""

    def __init__(self, kernel: str, device: str, log: str, text: str) -> None:
        numbered = "\n".join(f"{number:4d} {line}" for number, line in enumerate(text.splitlines(), 1))
        super().__init__(f"kernel '{kernel}' does not compile on {device}:\n{log.strip()}\n{numbered}")
        self.kernel, self.device, self.log, self.text = kernel, device, log, text


class ModelError(FramebindError):
    """The model file is damaged, foreign, or describes something impossible; names the operator or tensor at fault."""


class BindingError(FramebindError):
    """An object cannot be bound to a tensor (kind, size, format, released), or a bound tensor is used the wrong way."""


class TransferError(FramebindError):
    """A copy between host and GPU was attempted under ``transfer_guard("disallow")``; names the hop."""


class DelegateError(FramebindError):
    """The delegate cannot be applied: unknown LiteRT ABI, applied twice, or a failure inside LiteRT."""


class SourceError(FramebindError):
    """A camera, file or sink cannot be opened, read or written."""
