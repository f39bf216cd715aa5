"""A TfLiteDelegate written in Python: LiteRT's side of a subgraph, and the callbacks that LiteRT calls.

Only this file and abi.py know LiteRT's C interface.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

import numpy as np

from ...interop.errors import DelegateError
from ..read.model import Model, Subgraph
from . import abi
from .abi import ERROR, OK, P, read_ints

log = logging.getLogger("framebind.delegate")

KERNEL_NAME = "FramebindGpuDelegate"
"""The name of a partition in LiteRT's messages."""
_TENSOR_BYTES = ctypes.sizeof(abi.Tensor)


class PartitionKernel(Protocol):
    """One partition, as LiteRT calls it."""

    def prepare(self) -> None:
        """Set the shapes of the outputs; those of the inputs may have changed."""
        ...

    def invoke(self) -> None: ...
    def release(self) -> None: ...


class DelegateCallbacks(Protocol):
    """The callbacks of a delegate: the C structure calls them."""

    def claim(self, graph: NativeGraph) -> Sequence[int]:
        """The operators of this subgraph that the delegate takes."""
        ...

    def make_kernel(self, graph: NativeGraph, partition: Partitioned) -> PartitionKernel: ...
    def copy_to_cpu(self, graph: NativeGraph, tensor: int) -> None:
        """Fill ``graph.array(tensor)``."""
        ...


@dataclass(frozen=True)
class Partitioned:
    """Operators that run as one, and the tensors that enter and leave them, as LiteRT partitioned the graph."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def _int_array(values: Sequence[int]) -> Any:
    return (ctypes.c_int * (len(values) + 1))(len(values), *values)


class NativeGraph:
    """LiteRT's side of one subgraph, after its layout was checked. ``index`` is the subgraph's number in the model."""

    def __init__(self, address: int, index: int, subgraph: Subgraph, delegate: int) -> None:
        self.index, self.subgraph = index, subgraph
        self._address, self._delegate = address, delegate
        self._context = abi.Context.from_address(address)
        self._arrays: dict[int, tuple[int, int, np.ndarray]] = {}
        self._report_error = 0
        """LiteRT's own function for reports, while another one replaces it."""

    def _tensor(self, tensor: int) -> abi.Tensor:
        # LiteRT may move its tensors, so the address is asked for each time.
        return abi.Tensor.from_address(self._context.tensors + tensor * _TENSOR_BYTES)

    def _label(self, tensor: int) -> str:
        return f"tensor {tensor} '{self.subgraph.tensors[tensor].name}'"

    def shape(self, tensor: int) -> tuple[int, ...]:
        return read_ints(self._tensor(tensor).dims)

    def dtype(self, tensor: int) -> str:
        """The name of the type that LiteRT computes, which may differ from the file's."""
        return abi.TYPE_NAMES[self._tensor(tensor).type]

    def set_dtype(self, tensor: int, dtype: str) -> None:
        """Set the type of an output; ``set_shape`` makes LiteRT count its bytes anew."""
        self._tensor(tensor).type = list[str](abi.TYPE_NAMES).index(dtype)

    def set_shape(self, tensor: int, shape: tuple[int, ...]) -> None:
        """Resize an output; LiteRT allocates its memory after all kernels are prepared."""
        resize = abi.RESIZE(self._context.resize_tensor)
        values = _int_array(shape)
        dims = abi.MALLOC(ctypes.sizeof(values))  # LiteRT keeps and frees it
        ctypes.memmove(dims, values, ctypes.sizeof(values))
        if resize(self._address, ctypes.addressof(self._tensor(tensor)), dims) != OK:
            raise DelegateError(f"LiteRT does not resize {self._label(tensor)} to {shape}")

    def forget_arrays(self) -> None:
        """Make ``array`` ask again: shapes may have changed although addresses have not."""
        self._arrays.clear()

    def array(self, tensor: int) -> np.ndarray:
        """The tensor's memory on the CPU, in its current shape. Valid until LiteRT allocates again."""
        native = self._tensor(tensor)
        address, nbytes = native.data, native.bytes
        known = self._arrays.get(tensor)
        if known is not None and known[:2] == (address, nbytes):
            return known[2]
        if not address and 0 in self.shape(tensor):
            return np.empty(self.shape(tensor), self.dtype(tensor))  # LiteRT gives an empty tensor no memory
        if not address:
            raise DelegateError(f"{self._label(tensor)} has no CPU memory yet: call allocate_tensors()")
        memory = np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)
        array = memory.view(self.dtype(tensor)).reshape(self.shape(tensor))
        self._arrays[tensor] = (address, nbytes, array)
        return array

    def holds(self, tensor: int, left: np.ndarray) -> bool:
        """Whether the tensor's memory on the CPU is these bytes."""
        native = self._tensor(tensor)
        return (
            native.bytes == left.nbytes
            and bool(native.data)
            and not abi.MEMCMP(native.data, left.ctypes.data, left.nbytes)
        )

    def mark_stale(self, tensor: int) -> None:
        """Mark the CPU's copy as out of date: LiteRT calls ``copy_to_cpu`` when it needs the tensor."""
        native = self._tensor(tensor)
        native.delegate, native.buffer_handle, native.data_is_stale = self._delegate, tensor, True

    def is_stale(self, tensor: int) -> bool:
        """Whether the CPU's copy is out of date."""
        return bool(self._tensor(tensor).data_is_stale)

    def mark_current(self, tensor: int) -> None:
        """Mark the CPU's copy as up to date, so that LiteRT does not ask for the tensor."""
        self._tensor(tensor).data_is_stale = False

    def mute(self) -> None:
        """Make LiteRT drop all reports from now on, also its own "failed to invoke"."""
        if not self._report_error:
            self._report_error, self._context.report_error = self._context.report_error, abi.IGNORE

    def unmute(self) -> None:
        """Make LiteRT keep reports again."""
        if self._report_error:
            self._context.report_error, self._report_error = self._report_error, 0

    def report(self, text: str) -> None:
        """Add to the text of the error that LiteRT raises."""
        # The format is the only fixed argument of a variadic function: the text goes into it.
        abi.REPORT(self._context.report_error)(self._address, text.replace("%", "%%").encode())

    def plan(self) -> tuple[int, ...]:
        """The nodes that LiteRT will run, in order: operators, and with higher numbers the nodes of other delegates."""
        plan = P()
        if abi.GET_PLAN(self._context.get_execution_plan)(self._address, ctypes.byref(plan)) != OK:
            raise DelegateError("LiteRT does not give its execution plan")
        return read_ints(plan.value)

    def user_data(self, node: int) -> int | None:
        """The number that ``init`` gave a node of ours; None for any other node."""
        address, registration = P(), P()
        get = abi.GET_NODE(self._context.get_node_and_registration)
        if get(self._address, node, ctypes.byref(address), ctypes.byref(registration)) != OK or not address.value:
            raise DelegateError(f"LiteRT does not give node {node}")
        return abi.Node.from_address(address.value).user_data

    def preview(self, operators: Sequence[int]) -> list[Partitioned]:
        """The partitions that would result from taking these operators."""
        nodes, array, count = _int_array(operators), P(), ctypes.c_int()
        preview = abi.PREVIEW(self._context.preview_partitioning)
        if preview(self._address, ctypes.addressof(nodes), ctypes.byref(array), ctypes.byref(count)) != OK:
            raise DelegateError("LiteRT cannot partition the graph")
        size = ctypes.sizeof(abi.Parameters)
        return [_partitioned(abi.Parameters.from_address((array.value or 0) + i * size)) for i in range(count.value)]

    def replace(self, operators: Sequence[int], registration: abi.Registration) -> int:
        nodes = _int_array(operators)
        return abi.REPLACE(self._context.replace_nodes)(
            self._address, registration, ctypes.addressof(nodes), self._delegate
        )


def _partitioned(parameters: abi.Parameters) -> Partitioned:
    return Partitioned(read_ints(parameters.nodes), read_ints(parameters.inputs), read_ints(parameters.outputs))


class NativeDelegate:
    """The TfLiteDelegate structure and its callbacks. It must outlive its interpreter.

    No exception crosses into C: it is reported to LiteRT as text, and kept for ``take_error``. If ``quiet``, the
    interpreter takes the exception after each call, and LiteRT gets no text, because it would keep that of each
    failed frame.
    """

    def __init__(self, callbacks: DelegateCallbacks, model: Model, *, quiet: bool = False) -> None:
        self._handler, self._model, self._quiet = callbacks, model, quiet
        self._graphs: dict[int, NativeGraph] = {}
        self._kernels: dict[int, PartitionKernel] = {}
        self._prepared: dict[int, PartitionKernel] = {}
        """The kernels by the address of LiteRT's node. LiteRT prepares a node anew before it runs it elsewhere."""
        self._kernels_made = 0
        self.error: BaseException | None = None
        """The first exception that ``take_error`` has not taken yet."""
        self._callbacks = (
            abi.STATUS(self._prepare), abi.COPY(self._copy_from), abi.INIT(self._init), abi.FREE(self._free),
            abi.STATUS(self._prepare_kernel), abi.STATUS(self._invoke_kernel),
        )  # fmt: skip
        prepare, copy_from, init, free, prepare_kernel, invoke = (ctypes.cast(f, P) for f in self._callbacks)
        # Buffer handles are tensor indices and own nothing: there is nothing to free, and LiteRT never copies to one.
        self._native = abi.Delegate(prepare=prepare, copy_from_buffer_handle=copy_from, flags=abi.ALLOW_DYNAMIC_TENSORS)
        self._name = ctypes.create_string_buffer(KERNEL_NAME.encode())
        self._registration = abi.Registration(
            init=init, free=free, prepare=prepare_kernel, invoke=invoke, builtin_code=abi.DELEGATE_CODE, version=1,
            custom_name=ctypes.cast(self._name, P),
        )  # fmt: skip

    @property
    def pointer(self) -> int:
        return ctypes.addressof(self._native)

    def take_error(self) -> BaseException | None:
        """The first exception since the last call."""
        error, self.error = self.error, None
        if error is not None:
            for graph in self._graphs.values():
                graph.unmute()
        return error

    def graph(self, index: int) -> NativeGraph | None:
        """LiteRT's side of subgraph number ``index``, once LiteRT has shown it."""
        return next((graph for graph in self._graphs.values() if graph.index == index), None)

    def _guarded(self, context: int, action: Callable[[], None]) -> int:
        try:
            action()
        except BaseException as error:
            return self._failed(context, error)
        return OK

    def _failed(self, context: int, error: BaseException) -> int:
        self.error = self.error or error
        graph = self._graphs.get(context)
        text = f"{type(error).__name__}: {error}"
        if graph is not None:
            graph.report(text)
        else:  # nothing of an unchecked context may be called
            log.error(text)
        return ERROR

    def _prepare(self, context: int, _: int) -> int:
        return self._guarded(context, lambda: self._take_over(context))

    def _take_over(self, context: int) -> None:
        graph = self._find_graph(context)
        operators = self._handler.claim(graph)
        before = set(self._kernels)
        if operators and graph.replace(operators, self._registration) != OK:
            raise DelegateError("LiteRT does not replace the claimed operators")
        if self.error is not None:  # raised by _init, which has no status to return
            raise self.error
        carried = {graph.user_data(node) for node in graph.plan() if node >= len(graph.subgraph.operators)}
        if not set(self._kernels) - before <= carried:
            raise self._unknown("the delegate's nodes do not carry what it gave them")

    def _find_graph(self, context: int) -> NativeGraph:
        """Match LiteRT's subgraph with one of the file's: those not matched yet, in order."""
        known = self._graphs.get(context)
        taken = {graph.index for graph in self._graphs.values()}
        candidates = [known.index] if known else [i for i in range(len(self._model.subgraphs)) if i not in taken]
        reasons = []
        for index in candidates:
            subgraph = self._model.subgraphs[index]
            try:
                abi.check_layout(context, subgraph)
            except abi.LayoutMismatch as reason:
                reasons.append(str(reason))
                continue
            self._graphs[context] = NativeGraph(context, index, subgraph, self.pointer)
            return self._graphs[context]
        raise self._unknown("; ".join(reasons))

    @staticmethod
    def _unknown(seen: str) -> DelegateError:
        return DelegateError(
            f"LiteRT {litert_version()} shows another model than the delegate was given: {seen}. "
            "Give GpuDelegate and the interpreter the same model file; if that is so already, the delegate interface "
            f"of this LiteRT is not the known one: install ai-edge-litert {abi.KNOWN_VERSIONS}"
        )

    def _init(self, context: int, parameters: int, _: int) -> int:
        number = self._kernels_made + 1

        def make() -> None:
            partition = _partitioned(abi.Parameters.from_address(parameters))
            self._kernels[number] = self._handler.make_kernel(self._graphs[context], partition)
            self._kernels_made = number

        return number if self._guarded(context, make) == OK else 0

    def _free(self, context: int, number: int) -> None:
        kernel = self._kernels.pop(number, None)
        if kernel is not None:
            self._prepared = {node: each for node, each in self._prepared.items() if each is not kernel}
            self._guarded(context, kernel.release)

    def _prepare_kernel(self, context: int, node: int) -> int:
        def prepare() -> None:
            self._graphs[context].forget_arrays()
            kernel = self._prepared[node] = self._kernels[abi.Node.from_address(node).user_data]
            kernel.prepare()

        return self._guarded(context, prepare)

    def _invoke_kernel(self, context: int, node: int) -> int:
        try:  # _guarded, written out, because its action would cost time in each frame
            self._prepared[node].invoke()
        except BaseException as error:
            if self._quiet:
                self._graphs[context].mute()
            return self._failed(context, error)
        return OK

    def _copy_from(self, context: int, _delegate: int, handle: int, _tensor: int) -> int:
        return self._guarded(context, lambda: self._handler.copy_to_cpu(self._graphs[context], handle))


def litert_version() -> str:
    try:
        return version("ai-edge-litert")
    except PackageNotFoundError:
        return "of unknown version"
