"""The GL entry points that the library uses, as ctypes functions found through the context's own get_proc_address.

Not PyOpenGL's: its wrappers cost several microseconds a call, and the symbols it finds with dlsym are not seen by
tracers, while entry points that the platform hands out are.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import DeviceError

_V, _I, _U, _F = None, ctypes.c_int, ctypes.c_uint, ctypes.c_float
_P, _Z, _B, _S = ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ubyte, ctypes.c_char_p
_U64, _PROTOTYPE = ctypes.c_uint64, getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)

SIGNATURES: dict[str, tuple[Any, ...]] = {
    # name: (result, argument, argument ...)
    "glActiveTexture": (_V, _U),
    "glAttachShader": (_V, _U, _U),
    "glBindBuffer": (_V, _U, _U),
    "glBindBufferBase": (_V, _U, _U, _U),
    "glBindBufferRange": (_V, _U, _U, _U, _Z, _Z),
    "glBindFramebuffer": (_V, _U, _U),
    "glBindImageTexture": (_V, _U, _U, _I, _B, _I, _U, _U),
    "glBindSampler": (_V, _U, _U),
    "glBindTexture": (_V, _U, _U),
    "glBindVertexArray": (_V, _U),
    "glBlendFuncSeparate": (_V, _U, _U, _U, _U),
    "glBufferData": (_V, _U, _Z, _P, _U),
    "glBufferStorage": (_V, _U, _Z, _P, _U),
    "glBufferStorageEXT": (_V, _U, _Z, _P, _U),
    "glBufferStorageMemEXT": (_V, _U, _Z, _U, _U64),
    "glBufferSubData": (_V, _U, _Z, _Z, _P),
    "glCheckFramebufferStatus": (_U, _U),
    "glClear": (_V, _U),
    "glClearBufferData": (_V, _U, _U, _U, _U, _P),
    "glClearColor": (_V, _F, _F, _F, _F),
    "glClientWaitSync": (_U, _P, _U, _U64),
    "glColorMask": (_V, _B, _B, _B, _B),
    "glCompileShader": (_V, _U),
    "glCopyBufferSubData": (_V, _U, _U, _Z, _Z, _Z),
    "glCreateMemoryObjectsEXT": (_V, _I, _P),
    "glCreateProgram": (_U,),
    "glCreateShader": (_U, _U),
    "glDeleteBuffers": (_V, _I, _P),
    "glDeleteFramebuffers": (_V, _I, _P),
    "glDeleteMemoryObjectsEXT": (_V, _I, _P),
    "glDeleteProgram": (_V, _U),
    "glDeleteQueries": (_V, _I, _P),
    "glDeleteSamplers": (_V, _I, _P),
    "glDeleteSemaphoresEXT": (_V, _I, _P),
    "glDeleteShader": (_V, _U),
    "glDeleteSync": (_V, _P),
    "glDeleteTextures": (_V, _I, _P),
    "glDeleteVertexArrays": (_V, _I, _P),
    "glDetachShader": (_V, _U, _U),
    "glDisable": (_V, _U),
    "glDispatchCompute": (_V, _U, _U, _U),
    "glDrawArrays": (_V, _U, _I, _I),
    "glDrawArraysInstanced": (_V, _U, _I, _I, _I),
    "glDrawBuffers": (_V, _I, _P),
    "glEnable": (_V, _U),
    "glFenceSync": (_P, _U, _U),
    "glFinish": (_V,),
    "glFlush": (_V,),
    "glFlushMappedBufferRange": (_V, _U, _Z, _Z),
    "glFramebufferTexture2D": (_V, _U, _U, _U, _U, _I),
    "glGenBuffers": (_V, _I, _P),
    "glGenFramebuffers": (_V, _I, _P),
    "glGenQueries": (_V, _I, _P),
    "glGenSamplers": (_V, _I, _P),
    "glGenSemaphoresEXT": (_V, _I, _P),
    "glGenTextures": (_V, _I, _P),
    "glGenVertexArrays": (_V, _I, _P),
    "glGetBufferParameteri64v": (_V, _U, _U, _P),
    "glGetError": (_U,),
    "glGetInteger64i_v": (_V, _U, _U, _P),
    "glGetInteger64v": (_V, _U, _P),
    "glGetIntegerv": (_V, _U, _P),
    "glGetProgramBinary": (_V, _U, _I, _P, _P, _P),
    "glGetProgramInfoLog": (_V, _U, _I, _P, _P),
    "glGetProgramResourceIndex": (_U, _U, _U, _S),
    "glGetProgramResourceiv": (_V, _U, _U, _U, _I, _P, _I, _P, _P),
    "glGetProgramiv": (_V, _U, _U, _P),
    "glGetQueryObjectui64v": (_V, _U, _U, _P),
    "glGetQueryObjectui64vEXT": (_V, _U, _U, _P),
    "glGetShaderInfoLog": (_V, _U, _I, _P, _P),
    "glGetShaderiv": (_V, _U, _U, _P),
    "glGetString": (_S, _U),
    "glGetStringi": (_S, _U, _U),
    "glGetTexLevelParameteriv": (_V, _U, _I, _U, _P),
    "glGetTexParameteriv": (_V, _U, _U, _P),
    "glGetUniformLocation": (_I, _U, _S),
    "glGetUnsignedBytei_vEXT": (_V, _U, _U, _P),
    "glImportMemoryFdEXT": (_V, _U, _U64, _U, _I),
    "glImportSemaphoreFdEXT": (_V, _U, _U, _I),
    "glIsBuffer": (_B, _U),
    "glIsTexture": (_B, _U),
    "glLinkProgram": (_V, _U),
    "glMapBufferRange": (_P, _U, _Z, _Z, _U),
    "glMaxShaderCompilerThreadsKHR": (_V, _U),
    "glMemoryBarrier": (_V, _U),
    "glPixelStorei": (_V, _U, _I),
    "glProgramBinary": (_V, _U, _U, _P, _I),
    "glProgramParameteri": (_V, _U, _U, _I),
    "glQueryCounter": (_V, _U, _U),
    "glQueryCounterEXT": (_V, _U, _U),
    "glReadBuffer": (_V, _U),
    "glReadPixels": (_V, _I, _I, _I, _I, _U, _U, _P),
    "glSamplerParameteri": (_V, _U, _U, _I),
    "glShaderSource": (_V, _U, _I, _P, _P),
    "glSignalSemaphoreEXT": (_V, _U, _U, _P, _U, _P, _P),
    "glTexParameteri": (_V, _U, _U, _I),
    "glTexStorage2D": (_V, _U, _I, _U, _I, _I),
    "glTexSubImage2D": (_V, _U, _I, _I, _I, _I, _I, _U, _U, _P),
    "glUniform1f": (_V, _I, _F),
    "glUniform1i": (_V, _I, _I),
    "glUniform1iv": (_V, _I, _I, _P),
    "glUniform1ui": (_V, _I, _U),
    "glUniform2f": (_V, _I, _F, _F),
    "glUniform3f": (_V, _I, _F, _F, _F),
    "glUniform4f": (_V, _I, _F, _F, _F, _F),
    "glUniform4fv": (_V, _I, _I, _P),
    "glUnmapBuffer": (_B, _U),
    "glUseProgram": (_V, _U),
    "glWaitSemaphoreEXT": (_V, _U, _U, _P, _U, _P, _P),
    "glViewport": (_V, _I, _I, _I, _I),
}


class GlApi:
    """One context's entry points as attributes (``api.glFinish()``), looked up when first used.

    ``find`` is the platform's get_proc_address: a name to an address, 0 where there is none. ``version`` is for
    messages.
    """

    def __init__(self, find: Callable[[str], int]) -> None:
        self._find = find
        self._prebound: dict[str, Callable[..., Any]] = {}
        self.version = "an unknown GL version"
        self.calls: Counter[str] | None = None
        """Filled while ``counting`` is in force; command lists add to it what a run issues."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        result, *arguments = SIGNATURES[name]
        function = _PROTOTYPE(result, *arguments)(self.address(name))
        setattr(self, name, function)
        return function

    def address(self, name: str) -> int:
        """Where the entry point is. Raises DeviceError, naming it and the GL version, where the driver has none."""
        address = self._find(name)
        if not address:
            raise DeviceError(f"the driver has no {name} (it offers {self.version}); update the graphics driver")
        return address

    def prebound(self, name: str) -> Callable[..., Any]:
        """The entry point for calls recorded ahead: arguments are not converted, which halves the cost of a call.

        They must be ints of 32 bits, or ctypes objects of the right type. Never counted: see ``counting``.
        """
        if name not in self._prebound:
            self._prebound[name] = _PROTOTYPE(SIGNATURES[name][0])(self.address(name))
        return self._prebound[name]

    def integer(self, name: int) -> int:
        """glGetInteger64v."""
        value = ctypes.c_int64()
        self.glGetInteger64v(name, ctypes.byref(value))
        return value.value

    def clear_errors(self) -> list[int]:
        """Take all pending GL errors out of the context, oldest first."""
        errors = []
        while len(errors) < 16 and (error := self.glGetError()):
            errors.append(error)
        return errors


@contextlib.contextmanager
def counting(api: GlApi) -> Iterator[Counter[str]]:
    """Count GL calls by name within the block. Costs nothing outside it.

    Calls made through ``api`` are counted one by one; a command list adds the calls of a whole run at once.
    """
    calls: Counter[str] = Counter()
    saved = {name: value for name, value in vars(api).items() if name in SIGNATURES}
    for name in SIGNATURES:
        setattr(api, name, _counted(api, name, calls, saved))
    api.calls = calls
    try:
        yield calls
    finally:
        api.calls = None
        for name in SIGNATURES:
            delattr(api, name)
        vars(api).update(saved)


def _counted(api: GlApi, name: str, calls: Counter[str], saved: dict[str, Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        calls[name] += 1
        if name not in saved:
            result, *types = SIGNATURES[name]
            saved[name] = _PROTOTYPE(result, *types)(api.address(name))
        return saved[name](*arguments)

    return call
