"""The C structures of LiteRT's delegate interface, and the check that this LiteRT has them.

They mirror the used parts of tflite/core/c/common.h. They are no stable interface, so nothing is written or called
through them before ``check_layout`` has compared them with the model file.
"""

from __future__ import annotations

import ctypes
import os
from typing import TypeVar

import numpy as np

from ..read.model import Subgraph
from ..read.names import is_literal

KNOWN_VERSIONS = "2.0 to 2.3"
"""The ai-edge-litert versions with these structures: tested with 2.0.2, 2.0.3, 2.1.0, 2.1.6, 2.2.0 and 2.3.0."""

P = ctypes.c_void_p
OK, ERROR = 0, 1
ALLOW_DYNAMIC_TENSORS = 1
DELEGATE_CODE = 51
READ_ONLY_ALLOCATION = 1
NO_HANDLE = -1
MAX_NODE_TENSORS = 1 << 16

TYPE_NAMES = (
    "none float32 int32 uint8 int64 string bool int16 complex64 int8 float16 float64 complex128 uint64 resource "
    "variant uint32 uint16 int4 bfloat16"
).split()
"""TfLiteType, by number. The file's own numbers differ."""


class Tensor(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int), ("data", P), ("dims", P), ("scale", ctypes.c_float), ("zero_point", ctypes.c_int32),
        ("allocation_type", ctypes.c_int), ("bytes", ctypes.c_size_t), ("allocation", P), ("name", P), ("delegate", P),
        ("buffer_handle", ctypes.c_int), ("data_is_stale", ctypes.c_bool), ("is_variable", ctypes.c_bool),
        ("quantization_type", ctypes.c_int), ("quantization_params", P), ("sparsity", P), ("dims_signature", P),
    ]  # fmt: skip


class Node(ctypes.Structure):
    _fields_ = [
        ("inputs", P), ("outputs", P), ("intermediates", P), ("temporaries", P), ("user_data", P), ("builtin_data", P),
        ("custom_initial_data", P), ("custom_initial_data_size", ctypes.c_int), ("delegate", P),
        ("might_have_side_effect", ctypes.c_bool),
    ]  # fmt: skip


class Registration(ctypes.Structure):
    _fields_ = [
        ("init", P), ("free", P), ("prepare", P), ("invoke", P), ("profiling_string", P),
        ("builtin_code", ctypes.c_int32), ("custom_name", P), ("version", ctypes.c_int), ("registration_external", P),
        ("async_kernel", P), ("inplace_operator", ctypes.c_uint64),
    ]  # fmt: skip


class Parameters(ctypes.Structure):
    """TfLiteDelegateParams: one partition."""

    _fields_ = [("delegate", P), ("nodes", P), ("inputs", P), ("outputs", P)]


class Delegate(ctypes.Structure):
    _fields_ = [
        ("data", P), ("prepare", P), ("copy_from_buffer_handle", P), ("copy_to_buffer_handle", P),
        ("free_buffer_handle", P), ("flags", ctypes.c_int64), ("opaque_delegate_builder", P),
    ]  # fmt: skip


class Context(ctypes.Structure):
    _fields_ = [
        ("tensors_size", ctypes.c_size_t), ("get_execution_plan", P), ("tensors", P), ("impl", P), ("resize_tensor", P),
        ("report_error", P), ("add_tensors", P), ("get_node_and_registration", P), ("replace_nodes", P),
        ("recommended_num_threads", ctypes.c_int), ("get_external_context", P), ("set_external_context", P),
        ("allow_fp32_relax_to_fp16", ctypes.c_bool), ("profiler", P), ("allocate_persistent_buffer", P),
        ("allocate_buffer_for_eval", P), ("request_scratch_buffer", P), ("get_scratch_buffer", P),
        ("resize_tensor_explicit", P), ("preview_partitioning", P),
    ]  # fmt: skip


FUNCTIONS = (
    "get_execution_plan", "resize_tensor", "report_error", "add_tensors", "get_node_and_registration", "replace_nodes",
    "get_external_context", "set_external_context", "preview_partitioning",
)  # fmt: skip
"""The members of a Context that always point to functions of LiteRT's library."""

GET_PLAN = ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.POINTER(P))
GET_NODE = ctypes.CFUNCTYPE(ctypes.c_int, P, ctypes.c_int, ctypes.POINTER(P), ctypes.POINTER(P))
REPLACE = ctypes.CFUNCTYPE(ctypes.c_int, P, Registration, P, P)
PREVIEW = ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.POINTER(P), ctypes.POINTER(ctypes.c_int))
RESIZE = ctypes.CFUNCTYPE(ctypes.c_int, P, P, P)
REPORT = ctypes.CFUNCTYPE(None, P, ctypes.c_char_p)
INIT = ctypes.CFUNCTYPE(P, P, P, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, P, P)
STATUS = ctypes.CFUNCTYPE(ctypes.c_int, P, P)
COPY = ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.c_int, P)

MALLOC = ctypes.CFUNCTYPE(P, ctypes.c_size_t)(
    ("malloc", ctypes.CDLL(None) if os.name == "posix" else ctypes.CDLL("ucrtbase"))
)
"""The C library's malloc: LiteRT frees the memory that it is given."""

IGNORE: int = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
"""A C function that does nothing, to stand for LiteRT's ``report_error``: it ignores arguments and needs no Python."""

MEMCMP = ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.c_size_t)(
    ("memcmp", ctypes.CDLL(None) if os.name == "posix" else ctypes.CDLL("ucrtbase"))
)

S = TypeVar("S", bound=ctypes.Structure)
_PAGE_BYTES = 4096
"""Bytes of a page. On machines with larger pages, several of these are one page."""


class LayoutMismatch(Exception):  # noqa: N818 - a reason, which becomes the text of a DelegateError
    """A difference between LiteRT's structures and the model file."""


def read_ints(address: int | None) -> tuple[int, ...]:
    """A TfLiteIntArray: a C int count, then that many C ints."""
    if not address:
        return ()
    count = ctypes.c_int.from_address(address).value
    return tuple((ctypes.c_int * (count + 1)).from_address(address)[1:])


class _Memory:
    """Reads memory that may not be mapped: the kernel first copies a byte of each page through a pipe, and returns an
    error if reading the page would crash.
    """

    def __enter__(self) -> _Memory:
        self._out, self._in = os.pipe()
        self._readable: set[int] = set()
        """The numbers of mapped pages."""
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)

    def bytes(self, address: int | None, nbytes: int, what: str) -> bytes:
        if not address or address < 0:
            raise LayoutMismatch(f"{what} is a null pointer")
        for page in range(address // _PAGE_BYTES, (address + nbytes - 1) // _PAGE_BYTES + 1):
            if page not in self._readable:
                try:
                    os.write(self._in, ctypes.c_char.from_address(page * _PAGE_BYTES))
                except (OSError, ValueError) as error:
                    raise LayoutMismatch(f"{what} lies outside readable memory") from error
                os.read(self._out, 1)
                self._readable.add(page)
        return ctypes.string_at(address, nbytes)

    def structure(self, kind: type[S], address: int | None, what: str) -> S:
        return kind.from_buffer_copy(self.bytes(address, ctypes.sizeof(kind), what))

    def ints(self, address: int | None, what: str, limit: int) -> tuple[int, ...]:
        count = self.structure(_Count, address, what).value
        if not 0 <= count <= limit:
            raise LayoutMismatch(f"{what} claims {count} elements")
        return tuple(np.frombuffer(self.bytes(address, 4 * (count + 1), what), np.int32)[1:].tolist())


class _Count(ctypes.Structure):
    _fields_ = [("value", ctypes.c_int)]


def _expect(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise LayoutMismatch(f"{what} is {seen!r}, not {expected!r}")


def check_layout(address: int, subgraph: Subgraph) -> None:
    """Compare the structures at this context with the file, field by field. Raises LayoutMismatch if they differ."""
    with _Memory() as memory:
        context = memory.structure(Context, address, "the context")
        if context.tensors_size < len(subgraph.tensors):  # another delegate may have added some
            raise LayoutMismatch(f"it has {context.tensors_size} tensors, not {len(subgraph.tensors)}")
        for index in range(len(subgraph.tensors)):
            _check_tensor(memory, context, subgraph, index)
        functions = [getattr(context, name) for name in FUNCTIONS]
        if not all(functions) or max(functions) - min(functions) > 1 << 28:  # all lie in LiteRT's one library
            raise LayoutMismatch("its functions are not where they should be")
        plan = P()
        GET_PLAN(context.get_execution_plan)(address, ctypes.byref(plan))
        for index in memory.ints(plan.value, "the execution plan", 1 << 24):
            if index < len(subgraph.operators):  # further nodes are those of other delegates
                _check_node(memory, context, address, subgraph, index)


def _check_tensor(memory: _Memory, context: Context, subgraph: Subgraph, index: int) -> None:
    expected = subgraph.tensors[index]
    what = f"tensor {index} '{expected.name}'"
    tensor = memory.structure(Tensor, (context.tensors or 0) + index * ctypes.sizeof(Tensor), what)
    number = tensor.type
    dtype = TYPE_NAMES[number] if 0 <= number < len(TYPE_NAMES) else f"type {number}"
    _expect(f"the type of {what}", dtype, expected.dtype.removeprefix("sparse "))
    name = expected.name.encode()
    if is_literal(expected.name) and (name or tensor.name):
        _expect(f"the name of {what}", memory.bytes(tensor.name, len(name) + 1, f"the name of {what}"), name + b"\0")
    # An input may have been resized, also to another rank, and the computed tensors with it.
    dims = memory.ints(tensor.dims, f"the shape of {what}", 32) if tensor.dims or expected.shape else ()
    _expect(f"whether {what} is variable", bool(tensor.is_variable), expected.variable)
    if expected.constant is not None and not expected.dtype.startswith("sparse"):
        _expect(f"the shape of {what}", dims, expected.shape)
        _expect(f"the memory of {what}", tensor.allocation_type, READ_ONLY_ALLOCATION)
        packed = 2 if expected.dtype == "int4" else 1  # two int4 lie in a byte, and in one each once they are read
        _expect(f"the size of {what}", tensor.bytes, -(-expected.constant.nbytes // packed))
    if tensor.buffer_handle not in (NO_HANDLE, index):
        raise LayoutMismatch(f"the buffer handle of {what} is {tensor.buffer_handle}")


def _check_node(memory: _Memory, context: Context, address: int, subgraph: Subgraph, index: int) -> None:
    expected = subgraph.operators[index]
    what = f"operator {index} {expected.name}"
    node, registration = P(), P()
    if (
        GET_NODE(context.get_node_and_registration)(address, index, ctypes.byref(node), ctypes.byref(registration))
        != OK
    ):
        raise LayoutMismatch(f"{what} is missing")
    seen = memory.structure(Node, node.value, what)
    for name, address, tensors in (
        (f"the inputs of {what}", seen.inputs, expected.inputs),
        (f"the outputs of {what}", seen.outputs, expected.outputs),
    ):
        _expect(name, memory.ints(address, name, MAX_NODE_TENSORS), tensors)
    kind = memory.structure(Registration, registration.value, what)
    _expect(f"the code of {what}", kind.builtin_code, expected.code)
    if not expected.custom:
        _expect(f"the version of {what}", kind.version, expected.version)
    elif is_literal(expected.name):  # one that LiteRT does not know has version 1 there, whatever the file says
        name = expected.name.encode()
        _expect(f"the name of {what}", memory.bytes(kind.custom_name, len(name) + 1, what), name + b"\0")
