"""The C structures of LiteRT's delegate interface, and the check that this LiteRT has them.

They mirror the used parts of tflite/core/c/common.h. They are no stable interface, so nothing is written or called
through them before ``check_layout`` has compared them with the model file.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any, TypeVar

from ...kernels.tensor import TensorInfo
from ..read.model import RawOperator, Subgraph
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

C = TypeVar("C", bound=ctypes.Structure | ctypes.Array[Any] | ctypes.c_int)
_INT_BYTES = ctypes.sizeof(ctypes.c_int)
_PAGE_BYTES = 4096
"""Bytes of a page. On machines with larger pages, several of these are one page."""


class LayoutMismatch(Exception):  # noqa: N818 - a reason, which becomes the text of a DelegateError
    """A difference between LiteRT's structures and the model file. In its text, {} stands for a tensor or operator."""

    def about(self, what: str) -> LayoutMismatch:
        """The difference with the tensor's or operator's name in its text."""
        return LayoutMismatch(str(self).replace("{}", what, 1))


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
        self._pages: set[int] = set()
        """The numbers of mapped pages."""
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._out)
        os.close(self._in)

    def readable(self, address: int | None, nbytes: int, what: str) -> int:
        """The address, if these bytes can be read. Raises LayoutMismatch, about ``what``, if they cannot."""
        if not address or address < 0:
            raise LayoutMismatch(f"{what} is a null pointer")
        first, last = address // _PAGE_BYTES, (address + nbytes - 1) // _PAGE_BYTES
        if first not in self._pages or last not in self._pages or last > first + 1:
            self._probe(range(first, last + 1), what)
        return address

    def _probe(self, pages: range, what: str) -> None:
        for page in pages:
            if page not in self._pages:
                try:
                    os.write(self._in, ctypes.c_char.from_address(page * _PAGE_BYTES))
                except (OSError, ValueError) as error:
                    raise LayoutMismatch(f"{what} lies outside readable memory") from error
                os.read(self._out, 1)
                self._pages.add(page)

    def structure(self, kind: type[C], address: int | None, what: str) -> C:
        return kind.from_address(self.readable(address, ctypes.sizeof(kind), what))

    def text(self, address: int | None, nbytes: int, what: str) -> bytes:
        return ctypes.string_at(self.readable(address, nbytes, what), nbytes)  # a new type for each length takes longer

    def ints(self, address: int | None, what: str, limit: int) -> tuple[int, ...]:
        count = ctypes.c_int.from_address(self.readable(address, _INT_BYTES, what)).value
        if not 0 <= count <= limit:
            raise LayoutMismatch(f"{what} claims {count} elements")
        start = self.readable(address, _INT_BYTES * (count + 1), what) + _INT_BYTES
        return tuple((ctypes.c_int * count).from_address(start))

    def expect_ints(self, what: str, address: int | None, expected: tuple[int, ...]) -> None:
        seen = self.structure(ctypes.c_int * (len(expected) + 1), address, what)[:]
        if seen != [len(expected), *expected]:
            _expect(what, self.ints(address, what, MAX_NODE_TENSORS), expected)


def _expect(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise LayoutMismatch(f"{what} is {seen!r}, not {expected!r}")


def check_layout(address: int, subgraph: Subgraph) -> None:
    """Compare the structures at this context with the file, field by field. Raises LayoutMismatch if they differ."""
    with _Memory() as memory:
        context = memory.structure(Context, address, "the context")
        if context.tensors_size < len(subgraph.tensors):  # another delegate may have added some
            raise LayoutMismatch(f"it has {context.tensors_size} tensors, not {len(subgraph.tensors)}")
        _check_tensors(memory, context, subgraph.tensors)
        functions = [getattr(context, name) for name in FUNCTIONS]
        if not all(functions) or max(functions) - min(functions) > 1 << 28:  # all lie in LiteRT's one library
            raise LayoutMismatch("its functions are not where they should be")
        _check_nodes(memory, context, address, subgraph.operators)


def _check_tensors(memory: _Memory, context: Context, expected: Sequence[TensorInfo]) -> None:
    if not expected:
        return  # LiteRT has no array of tensors
    tensors = memory.structure(Tensor * len(expected), context.tensors, "the array of tensors")
    for index, (tensor, info) in enumerate(zip(tensors, expected, strict=True)):
        try:
            _check_tensor(memory, tensor, info, index)
        except LayoutMismatch as reason:
            raise reason.about(f"tensor {index} '{info.name}'") from reason


def _check_tensor(memory: _Memory, tensor: Tensor, expected: TensorInfo, index: int) -> None:
    number = tensor.type
    dtype = TYPE_NAMES[number] if 0 <= number < len(TYPE_NAMES) else f"type {number}"
    _expect("the type of {}", dtype, expected.dtype.removeprefix("sparse "))
    name = expected.name.encode()
    if is_literal(expected.name) and (name or tensor.name):
        _expect("the name of {}", memory.text(tensor.name, len(name) + 1, "the name of {}"), name + b"\0")
    # An input may have been resized, also to another rank, and the computed tensors with it.
    dims = memory.ints(tensor.dims, "the shape of {}", 32) if tensor.dims or expected.shape else ()
    _expect("whether {} is variable", bool(tensor.is_variable), expected.variable)
    if expected.constant is not None and not expected.dtype.startswith("sparse"):
        _expect("the shape of {}", dims, expected.shape)
        if expected.constant.size:  # LiteRT may take an empty one for a computed one
            _expect("the memory of {}", tensor.allocation_type, READ_ONLY_ALLOCATION)
        packed = 2 if expected.dtype == "int4" else 1  # two int4 lie in a byte, and in one each once they are read
        _expect("the size of {}", tensor.bytes, -(-expected.constant.nbytes // packed))
    if tensor.buffer_handle not in (NO_HANDLE, index):
        raise LayoutMismatch(f"the buffer handle of {{}} is {tensor.buffer_handle}")


def _check_nodes(memory: _Memory, context: Context, address: int, operators: Sequence[RawOperator]) -> None:
    plan, node, registration = P(), P(), P()
    GET_PLAN(context.get_execution_plan)(address, ctypes.byref(plan))
    get_node = GET_NODE(context.get_node_and_registration)
    for index in memory.ints(plan.value, "the execution plan", 1 << 24):
        if index >= len(operators):  # further nodes are those of other delegates
            continue
        try:
            if get_node(address, index, ctypes.byref(node), ctypes.byref(registration)) != OK:
                raise LayoutMismatch("{} is missing")
            _check_node(memory, node.value, registration.value, operators[index])
        except LayoutMismatch as reason:
            raise reason.about(f"operator {index} {operators[index].name}") from reason


def _check_node(memory: _Memory, node: int | None, registration: int | None, expected: RawOperator) -> None:
    seen = memory.structure(Node, node, "{}")
    memory.expect_ints("the inputs of {}", seen.inputs, expected.inputs)
    memory.expect_ints("the outputs of {}", seen.outputs, expected.outputs)
    kind = memory.structure(Registration, registration, "{}")
    _expect("the code of {}", kind.builtin_code, expected.code)
    if not expected.custom:
        _expect("the version of {}", kind.version, expected.version)
    elif is_literal(expected.name):  # one that LiteRT does not know has version 1 there, whatever the file says
        name = expected.name.encode()
        _expect("the name of {}", memory.text(kind.custom_name, len(name) + 1, "{}"), name + b"\0")
