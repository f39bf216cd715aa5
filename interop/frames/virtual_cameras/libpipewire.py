"""The functions and structures of libpipewire 0.3 that a stream of video needs. Its ABI has not changed since 0.3.0.

Names and fields are those of pipewire/stream.h, pipewire/thread-loop.h, spa/buffer/buffer.h and spa/buffer/meta.h.
"""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, TypeVar

from ...errors import SourceError

LIBRARY = "libpipewire-0.3.so.0"
OUTPUT, ANY_NODE = 1, 0xFFFFFFFF
ERROR, UNCONNECTED, CONNECTING, PAUSED, STREAMING = range(-1, 4)
MAP_BUFFERS, DRIVER, ALLOC_BUFFERS = 1 << 2, 1 << 3, 1 << 8
DATA_MEM_FD, DATA_DMA_BUF = 2, 3
DATA_READABLE, DATA_WRITABLE = 1, 2

StateChanged = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_int, c_char_p)
ParamChanged = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p)


class DictItem(Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class Dict(Structure):
    _fields_ = (("flags", c_uint32), ("n_items", c_uint32), ("items", POINTER(DictItem)))


class Chunk(Structure):
    _fields_ = (("offset", c_uint32), ("size", c_uint32), ("stride", c_int32), ("flags", c_int32))


class Data(Structure):
    _fields_ = (
        ("type", c_uint32), ("flags", c_uint32), ("fd", c_int64), ("mapoffset", c_uint32), ("maxsize", c_uint32),
        ("data", c_void_p), ("chunk", POINTER(Chunk)),
    )  # fmt: skip


class Meta(Structure):
    _fields_ = (("type", c_uint32), ("size", c_uint32), ("data", c_void_p))


class Header(Structure):
    _fields_ = (
        ("flags", c_uint32), ("offset", c_uint32), ("pts", c_int64), ("dts_offset", c_int64), ("seq", c_uint64),
    )  # fmt: skip


class Users(Structure):
    """struct spa_meta_busy."""

    _fields_ = (("flags", c_uint32), ("count", c_uint32))


_Meta = TypeVar("_Meta", bound=Structure)


class SpaBuffer(Structure):
    _fields_ = (("n_metas", c_uint32), ("n_datas", c_uint32), ("metas", POINTER(Meta)), ("datas", POINTER(Data)))


class Buffer(Structure):
    _fields_ = (("buffer", POINTER(SpaBuffer)), ("user_data", c_void_p), ("size", c_uint64))


OfBuffer = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Buffer))


class StreamEvents(Structure):
    """Version 0 of the events: libpipewire calls those that are not null."""

    _fields_ = (
        ("version", c_uint32), ("destroy", c_void_p), ("state_changed", StateChanged), ("control_info", c_void_p),
        ("io_changed", c_void_p), ("param_changed", ParamChanged), ("add_buffer", OfBuffer),
        ("remove_buffer", OfBuffer), ("process", c_void_p), ("drained", c_void_p), ("command", c_void_p),
        ("trigger_done", c_void_p),
    )  # fmt: skip


_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "pw_init": (None, (c_void_p, c_void_p)),
    "pw_log_set_level": (None, (c_int,)),
    "pw_get_library_version": (c_char_p, ()),
    "pw_properties_new_dict": (c_void_p, (POINTER(Dict),)),
    "pw_thread_loop_new": (c_void_p, (c_char_p, c_void_p)),
    "pw_thread_loop_destroy": (None, (c_void_p,)),
    "pw_thread_loop_get_loop": (c_void_p, (c_void_p,)),
    "pw_thread_loop_start": (c_int, (c_void_p,)),
    "pw_thread_loop_stop": (None, (c_void_p,)),
    "pw_thread_loop_lock": (None, (c_void_p,)),
    "pw_thread_loop_unlock": (None, (c_void_p,)),
    "pw_stream_new_simple": (c_void_p, (c_void_p, c_char_p, c_void_p, POINTER(StreamEvents), c_void_p)),
    "pw_stream_destroy": (None, (c_void_p,)),
    "pw_stream_connect": (c_int, (c_void_p, c_int, c_uint32, c_int, POINTER(c_char_p), c_uint32)),
    "pw_stream_update_params": (c_int, (c_void_p, POINTER(c_char_p), c_uint32)),
    "pw_stream_get_node_id": (c_uint32, (c_void_p,)),
    "pw_stream_dequeue_buffer": (POINTER(Buffer), (c_void_p,)),
    "pw_stream_queue_buffer": (c_int, (c_void_p, POINTER(Buffer))),
    "pw_stream_trigger_process": (c_int, (c_void_p,)),
}


@functools.cache
def load_pipewire() -> Any:
    """libpipewire, initialized (ctypes.CDLL). It prints nothing by itself, unless PIPEWIRE_DEBUG is set.

    Raises SourceError if it is not installed, or older than 0.3.34, which has no pw_stream_trigger_process.
    """
    try:
        library: Any = ctypes.CDLL(LIBRARY)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise SourceError(
            f"a camera of PipeWire needs {LIBRARY} ({error}): on Debian and Ubuntu it is in libpipewire-0.3-0"
        ) from error
    library.pw_init(None, None)
    if "PIPEWIRE_DEBUG" not in os.environ:
        library.pw_log_set_level(0)
    return library


def pods(*encoded: bytes) -> Any:
    """An array of parameters for a call. It keeps them alive."""
    return (c_char_p * len(encoded))(*encoded)


def properties(library: Any, values: dict[str, str]) -> int:
    """Properties for a new stream, which then owns them."""
    items = [DictItem(key.encode(), value.encode()) for key, value in values.items()]
    return library.pw_properties_new_dict(Dict(0, len(items), (DictItem * len(items))(*items)))


def pod_bytes(address: int) -> bytes:
    """The bytes of a parameter that libpipewire gave."""
    size = c_uint32.from_address(address).value
    return ctypes.string_at(address, 8 + size)


def header_of(buffer: SpaBuffer, kind: int) -> Header | None:
    """The header of a buffer, if it has one."""
    return _meta_of(buffer, kind, Header)


def users_of(buffer: SpaBuffer, kind: int) -> Users | None:
    """The count of those that hold a buffer, if it has one: libpipewire asks for it in each stream."""
    return _meta_of(buffer, kind, Users)


def _meta_of(buffer: SpaBuffer, kind: int, structure: type[_Meta]) -> _Meta | None:
    for index in range(buffer.n_metas):
        meta = buffer.metas[index]
        if meta.type == kind and meta.size >= ctypes.sizeof(structure):
            return structure.from_address(meta.data)
    return None
