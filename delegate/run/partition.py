"""One partition of a model on the GPU, as LiteRT prepares, runs and frees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter

from ...interop.device import Resource
from ...interop.errors import BindingError, DelegateError, ModelError
from ...kernels.tensor import INTEGER_DTYPES, TensorInfo
from ...kernels.views import Storage
from ..cache.build import BuildContext
from ..claim.claims import Claims
from ..claim.partition_graph import build_graph, output_shapes
from ..litert.native import NativeGraph, Partitioned
from ..lower.tuning import Tuning, TuningError
from ..plan.binding import Binding
from ..report import PartitionReport
from ..transform.graph import Graph
from .boundary import BoundaryTensors
from .messages import tensor_label
from .program import Program
from .tuner import tune

log = logging.getLogger("framebind")

_handle = attrgetter("handle")


class Partition:
    """Operators that run as one program, which is built at the first run, and again after the inputs were resized."""

    def __init__(
        self,
        boundary: BoundaryTensors,
        native: NativeGraph,
        claims: Claims,
        partitioned: Partitioned,
        storage: Storage,
        initialization: BuildContext,
        *,
        on_first_run: Callable[[], None],
    ) -> None:
        """``on_first_run`` is called whenever a program of it has run for the first time."""
        self._boundary, self._native, self._claims = boundary, native, claims
        self._partitioned = partitioned
        self._storage: Storage = storage
        self._initialization = initialization
        self._on_first_run, self._has_run = on_first_run, False
        runtime = [i for i in partitioned.inputs if i >= 0 and claims.tensors[i].constant is None]
        self.inputs, self.outputs = tuple(runtime), partitioned.outputs
        for tensor in (*self.inputs, *self.outputs):
            if claims.tensors[tensor].dtype not in {"float32", *INTEGER_DTYPES}:
                raise DelegateError(
                    f"{tensor_label(tensor, claims.tensors[tensor])} enters or leaves the GPU as "
                    f"{claims.tensors[tensor].dtype}, which none can: this is a defect of framebind, please report it"
                )
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._prepared_for = self._model_shapes(as_in_file=True)
        self.program: Program | None = None
        self._untuned = False
        """``program`` goes by rule until it was measured what is faster."""
        self._unbound: set[int] = set()
        self._exchanged = False
        """Other objects are bound than at the last run."""
        self._states = tuple(i for i in self.inputs if claims.tensors[i].variable)
        copied = [tensor for tensor in self.inputs if tensor not in self._states]
        self._from_cpu = boundary.add_partition(native.index, copied, self.outputs)
        self._measured = claims.baked_shapes
        self._uploads: tuple[int, ...] = ()
        self._first_uploads: tuple[int, ...] = ()
        self._empty = False
        self._resources: dict[int, Resource] = {}

    @property
    def subgraph(self) -> int:
        """The number of the subgraph that this is a part of."""
        return self._native.index

    @property
    def operators(self) -> tuple[int, ...]:
        """The numbers of its operators in the subgraph, in execution order."""
        return self._partitioned.operators

    def prepare(self) -> None:
        """Set the outputs' shapes from the inputs'; drop a program that was made for others."""
        given = {tensor: self._native.shape(tensor) for tensor in self.inputs}
        self._check_measured()
        if any(self._shapes.get(tensor) != shape for tensor, shape in given.items()) or not self._shapes:
            try:
                self._shapes = output_shapes(self._claims, self._partitioned.operators, given)
            except ValueError as error:
                raise ModelError(f"the model does not take input shapes {list(given.values())}: {error}") from error
            self._drop_program()
            self._empty = self._is_empty()
        self._prepared_for = self._model_shapes()
        for tensor in self.outputs:
            if self._native.shape(tensor) != self._shapes[tensor]:
                self._native.set_shape(tensor, self._shapes[tensor])

    def _check_measured(self) -> None:
        """Raise ModelError where a shape that became a constant is another one now."""
        for tensor, known in self._measured.items():
            shape = self._native.shape(tensor)
            if shape != known:
                raise ModelError(
                    f"{tensor_label(tensor, self._claims.tensors[tensor])} cannot become {shape}: its shape is part of "
                    "the program on the GPU, because an operator of the model reads it; resize the inputs before the "
                    "delegate is applied, or run the model without it"
                )

    def _is_empty(self) -> bool:
        """Whether all outputs have no elements, so that there is nothing to compute; ModelError if only others have."""
        empty = [tensor for tensor, shape in self._shapes.items() if 0 in shape]
        if empty and not all(tensor in empty for tensor in self.outputs):
            raise ModelError(
                f"{tensor_label(empty[0], self._claims.tensors[empty[0]])} has the shape {self._shapes[empty[0]]}: the "
                "GPU computes nothing of an empty tensor; give the model other inputs, or run it without the delegate"
            )
        return bool(empty)

    def _model_shapes(self, *, as_in_file: bool = False) -> list[tuple[int, ...]]:
        """The shapes of the model's inputs."""
        subgraph = self._native.subgraph
        inputs = [i for i in subgraph.inputs if i >= 0]
        return [subgraph.tensors[i].shape if as_in_file else self._native.shape(i) for i in inputs]

    def tensor(self, tensor: int) -> TensorInfo | None:
        """A boundary tensor with its current shape; None after an input was resized and before ``prepare``."""
        if self._model_shapes() != self._prepared_for:
            return None
        info = self._claims.tensors[tensor]
        shape = self._shapes.get(tensor, info.shape)
        return info if shape == info.shape else replace(info, shape=shape)

    def rebind(self, tensor: int) -> None:
        """What is bound to the tensor has changed."""
        if tensor in self.inputs or tensor in self.outputs:
            self._unbound.add(tensor)

    def exchange(self, tensor: int, binding: Binding) -> None:
        """What is bound to the tensor is another object of the same kind now: nothing is decided anew.

        An output is exchanged at the next run: until then, results are read from where the last one wrote them.
        """
        if self.program is None or tensor in self._unbound or tensor in self.outputs:
            self.rebind(tensor)
            return
        self.program.bind(tensor, binding)
        self._resources[tensor] = binding.resource
        self._exchanged = True

    def invoke(self) -> None:
        """Bind what changed, copy what comes from the CPU, run, and say that the outputs are on the GPU."""
        if self._empty:
            return
        program = self.program
        if program is None or self._unbound:
            program = self._bound_program()
        if self._exchanged:
            self._refuse_aliases()
            self._exchanged = False
        if self._first_uploads:
            self._upload_once()
        for tensor in self._uploads:
            self._boundary.upload(self._native, tensor)
        for tensor in self._states:
            self._boundary.upload_state(self._native, tensor)
        program.run()
        for tensor in self._states:
            self._boundary.state_written(self._native, tensor)
        for tensor in self.outputs:
            self._boundary.written(self._native, tensor)
        self._boundary.wait()
        if not self._has_run:
            self._has_run = True
            self._on_first_run()

    def record(self) -> int:
        """Build, bind and record what a run needs, and return the number of its dispatches."""
        return 0 if self._empty else self._bound_program().commands.dispatches

    def _bound_program(self) -> Program:
        """The program, built if it was not, with everything bound that is bound now."""
        self._boundary.open_device.check()
        program = self.program or self._build()
        if self._unbound:
            self._bind(program)
        return self._tune(program) if self._untuned else program

    def report(self, number: int) -> PartitionReport:
        """What it consists of and, once it was recorded, takes."""
        program = self.program if not self._unbound else None
        return PartitionReport(
            number,
            self.subgraph,
            self.operators,
            self.inputs,
            self.outputs,
            dispatches=program.commands.dispatches if program else None,
            barriers=program.commands.barriers if program else None,
            constants_nbytes=program.weights_nbytes if program else None,
            arena_nbytes=program.arena_nbytes if program else None,
        )

    def _upload_once(self) -> None:
        """Copy what the CPU computes of constants alone."""
        for tensor in self._first_uploads:
            self._boundary.upload(self._native, tensor)
        self._first_uploads = ()

    def _build(self) -> Program:
        kept = self._kept() if self._initialization.tuned else None
        # A state is left alone: each run that is measured would move it on.
        self._untuned = self._initialization.tuned and kept is None and not self._states
        if self._untuned:  # what it takes is not kept: it makes place for the one that is tuned
            self.program = self._make(Tuning(), BuildContext())
        else:
            self.program = kept or self._make(Tuning(), self._initialization)
        self._has_run = False
        self._unbound = {*self.program.graph.inputs, *self.program.graph.outputs}
        return self.program

    def _make(self, tuning: Tuning, initialization: BuildContext) -> Program:
        """The program with nothing bound. Raises TuningError."""
        with initialization.phase("transform"):
            graph = build_graph(self._claims, self._partitioned.operators, self.inputs, self.outputs, self._shapes)
        return Program(self._boundary.open_device, graph, self._storage, initialization, self._name, tuning)

    @property
    def _name(self) -> str:
        """What is kept of it is kept as this."""
        shapes = [self._shapes.get(tensor, self._claims.tensors[tensor].shape) for tensor in self.inputs]
        return f"{self.subgraph} {self.operators} {self.inputs} {shapes}"

    def _kept(self) -> Program | None:
        """The program as an earlier start tuned it; None where that is not kept, or does not fit."""
        tuning = self._initialization.tuning(self._name)
        try:
            return None if tuning is None else self._make(tuning, self._initialization)
        except TuningError as reason:
            log.warning(f"what was measured is not used and measured anew: {reason}")
            return None

    def _tune(self, base: Program) -> Program:
        """Let the fastest program take the place of the one that goes by rule, and keep how it is made."""
        self._refuse_aliases()

        def make(tuning: Tuning, initialization: BuildContext | None = None) -> Program:
            program = self._make(tuning, initialization or BuildContext())
            program.bind_like(base)
            return program

        tuning = tune(self._boundary.open_device, base, make)
        program = make(tuning, self._initialization)
        self._initialization.keep_tuning(self._name, tuning)
        base.release()
        self.program, self._untuned = program, False
        return program

    def _bind(self, program: Program) -> None:
        graph: Graph = program.graph
        for tensor in self._unbound:
            if tensor in graph.inputs or tensor in graph.outputs:
                binding = self._boundary.binding((self._native.index, tensor), graph.tensors[tensor])
                program.bind(tensor, binding)
                self._resources[tensor] = binding.resource
        self._exchanged = True
        self._find_uploads()
        self._unbound.clear()

    def _find_uploads(self) -> None:
        """What comes from the CPU before each run; and of constants, once, what was not bound to something else."""
        first, each = list[int](), list[int]()
        for tensor in self._from_cpu:
            if self._boundary.is_bound((self._native.index, tensor)):
                continue
            if tensor not in self._claims.constant_derived:
                each.append(tensor)
            elif tensor in self._unbound or tensor in self._first_uploads:
                first.append(tensor)
        self._first_uploads, self._uploads = tuple(first), tuple(each)

    def _refuse_aliases(self) -> None:
        """One object cannot be written and read (or written twice) in the same run: the order is the model's own."""
        if len(set(map(_handle, self._resources.values()))) == len(self._resources):
            return
        for output in self.outputs:
            written = self._resources.get(output)
            for other, resource in self._resources.items():
                if written is not None and other != output and resource.handle == written.handle:
                    raise BindingError(
                        f"{resource.label} is bound to {tensor_label(output, self._claims.tensors[output])} and to "
                        f"tensor {other}: bind another object to one of them, and swap the two between invokes"
                    )

    def _drop_program(self) -> None:
        if self.program is not None:
            self.program.release()
            self.program = None
            self._resources.clear()

    def release(self) -> None:
        self._drop_program()
