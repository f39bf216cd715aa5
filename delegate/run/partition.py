"""One partition of a model on the GPU, as LiteRT prepares, runs and frees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...interop.errors import DelegateError
from ...kernels.tensor import RUNTIME_DTYPES
from ..claim.claims import Claims
from ..claim.shape_rules import Shape
from ..claim.variables import Variable
from ..litert.native import NativeGraph, Partitioned
from ..plan.binding import Binding
from ..plan.tensor_uses import Key
from ..report import PartitionReport
from ..transform.graph import Graph
from .boundary import BoundaryTensors
from .boundary_memory import BoundaryMemory
from .cpu_operators import CpuOperators
from .feedback import check_shapes
from .maker import ProgramMaker
from .messages import CLOSED, tensor_label
from .prepared import PreparedClaims
from .program import Program
from .uploads import Uploads


class BoundProgram:
    """The program of a partition, built at the first run, and the objects that it does not have yet.

    ``subgraph`` and ``variables`` say where in ``memory`` the objects of its tensors are. An object for one of the
    ``outputs`` waits for the next run: until then, results are read from the object before.
    """

    def __init__(
        self,
        memory: BoundaryMemory,
        maker: ProgramMaker,
        subgraph: int,
        outputs: tuple[int, ...],
        variables: Mapping[int, Variable],
    ) -> None:
        self._memory, self._maker, self._subgraph = memory, maker, subgraph
        self._outputs, self._variables = outputs, variables
        self.program: Program | None = None
        self.changed: set[int] = set()
        """The boundary tensors whose current bindings ``program`` does not have yet."""
        self.untuned = False
        """``program`` follows the rules and is to be tuned."""

    def rebind(self, tensor: int) -> None:
        """Take over a tensor's binding at the next run: another kind of object, or none."""
        self.changed.add(tensor)

    def exchange(self, tensor: int, binding: Binding) -> None:
        """Take over another object of the same kind, without new decisions."""
        if self.program is None or tensor in self.changed or tensor in self._outputs:
            self.rebind(tensor)
            return
        self.program.bind(tensor, binding)

    def swap(self, tensor: int, binding: Binding) -> None:
        """Take over the other buffer of a state. A program that has no buffer for the tensor yet finds it later."""
        if self.program is not None and tensor not in self.changed:
            self.program.exchange(tensor, binding)

    def build(self, name: str, graph: Callable[[], Graph], *, may_measure: bool) -> Program:
        """Make the program, which has no objects yet."""
        self.program, self.untuned = self._maker.first(name, graph, may_measure=may_measure)
        self.changed = {*self.program.inputs, *self.program.outputs}
        return self.program

    def bind_changed(self, program: Program) -> set[int]:
        """Bind the objects that the program does not have yet. Returns the tensors."""
        for tensor in self.changed:
            if tensor in program.inputs or tensor in program.outputs:
                variable = self._variables.get(tensor)
                if variable is None:
                    key, is_last = (self._subgraph, tensor), program.has_state_last(tensor)
                    binding = self._memory.binding(key, program.graph.tensors[tensor], state_is_last=is_last)
                else:
                    binding = self._memory.variable_binding(variable)
                program.bind(tensor, binding)
        changed, self.changed = self.changed, set()
        return changed

    def tune(self, program: Program, name: str, graph: Callable[[], Graph]) -> Program:
        """Put the program that is measured to be the fastest in the place of the one by rule."""
        program.check_bindings()
        self.program, self.untuned = self._maker.tune(program, name, graph), False
        return self.program

    def release(self) -> None:
        """Free the program; the next run builds another one."""
        if self.program is not None:
            self.program.release()
            self.program = None


class Partition:
    """Operators that run as one program, which is built at the first run, and again after the inputs were resized.

    Implements ``litert.native.PartitionKernel``. ``on_first_run`` is called after each first run of recorded commands.
    """

    def __init__(
        self,
        boundary: BoundaryTensors,
        native: NativeGraph,
        claims: Claims,
        partitioned: Partitioned,
        maker: ProgramMaker,
        *,
        sources: tuple[int, ...],
        claim_again: Callable[[Mapping[int, Shape]], Claims],
        make_cpu: Callable[[], CpuOperators],
        on_first_run: Callable[[], None],
    ) -> None:
        self._boundary, self._native, self._on_first_run = boundary, native, on_first_run
        self.subgraph, self.operators = native.index, partitioned.operators
        self.inputs = tuple(i for i in partitioned.inputs if i >= 0 and claims.tensors[i].constant is None)
        self.inputs = tuple(i for i in self.inputs if not self._is_handle(i))
        self.outputs = tuple(i for i in partitioned.outputs if not self._is_handle(i))
        self._check_types(claims)
        self._written: tuple[Key, ...] = ()
        """The outputs that have elements, as the boundary knows them."""
        fed = boundary.memory.states
        self._fed = tuple(fed[self.subgraph, i] for i in self.outputs if (self.subgraph, i) in fed)
        """The states that the partition writes and that are fed back."""
        self.begin_run: Callable[[], None] | None = None
        """A function that is called before each run of the first partition, if there are states or more partitions."""
        self._states = tuple(i for i in self.inputs if claims.tensors[i].variable)
        """Variable tensors, whose values LiteRT may set."""
        used = [variable for variable in claims.variables if {*variable.operators} & {*self.operators}]
        self._variables = {variable.tensor: variable for variable in used}
        """The variables that the partition reads or assigns, by the tensors that stand for their values."""
        self.prepared = PreparedClaims(
            native, claims, self.operators, self.inputs, self.outputs, sources=sources,
            has_states=bool(self._states or self._variables or self._fed), claim_again=claim_again, make_cpu=make_cpu,
        )  # fmt: skip
        copied = [i for i in self.inputs if i not in self._states and (self.subgraph, i) not in fed]
        from_cpu = boundary.uses.add_partition(native.index, copied, self.outputs)
        announced = boundary.inputs_are_announced and self.subgraph == 0
        self._uploads = Uploads(from_cpu, {*from_cpu} & {*native.subgraph.inputs} if announced else ())
        self.bound = BoundProgram(boundary.memory, maker, self.subgraph, self.outputs, self._variables)
        self.was_called = False
        """LiteRT has called ``invoke`` since the flag was cleared."""

    def _is_handle(self, tensor: int) -> bool:
        """Whether a tensor is the handle of a variable; programs use the variable's value instead."""
        return self._native.subgraph.tensors[tensor].dtype == "resource"

    def _check_types(self, claims: Claims) -> None:
        for tensor in (*self.inputs, *self.outputs):
            info = claims.tensors[tensor]
            if info.dtype not in RUNTIME_DTYPES:
                raise DelegateError(
                    f"{tensor_label(tensor, info)} enters or leaves the GPU as {info.dtype}, which none can: this is a "
                    "defect of framebind, please report it"
                )

    @property
    def program(self) -> Program | None:
        """The program; None before the first run."""
        return self.bound.program

    def prepare(self) -> None:
        """Set the outputs' shapes from the inputs'; drop a program that was made for other shapes."""
        native, prepared = self._native, self.prepared
        if prepared.update():
            self.release()
        self._written = tuple((native.index, tensor) for tensor in self.outputs if 0 not in prepared.shape(tensor))
        for tensor in self._uploads.announced:
            self.input_set(tensor)  # LiteRT may have moved its memory
        for tensor in self.outputs:
            shape = prepared.output_shape(tensor)
            if native.shape(tensor) != shape or prepared.has_other_types:
                native.set_shape(tensor, shape)
            if 0 in shape:
                self._boundary.has_no_elements(native, tensor)

    def input_set(self, tensor: int) -> None:
        """Copy an input of the model before the next run, because it was set."""
        program, memory = self.bound.program, self._boundary.memory
        if program is not None and tensor in program.inputs and not memory.is_bound((self.subgraph, tensor)):
            self._uploads.value_set(tensor)

    def input_shown(self, tensor: int) -> None:
        """Copy an input of the model before each run, because a view of its memory was given away."""
        if self._uploads.shown(tensor):
            self.bound.rebind(tensor)

    def invoke(self) -> None:
        """Bind changed objects, copy inputs from the CPU, run, and mark the outputs as being on the GPU."""
        self.was_called = True
        boundary = self._boundary
        if boundary.closed:
            raise DelegateError(CLOSED)
        if boundary.memory.needs_entering:
            with boundary.memory.open_device.entered():
                self._invoke()
        else:
            self._invoke()

    def _invoke(self) -> None:
        if self.begin_run is not None:
            self.begin_run()
        if self.prepared.is_empty or self.prepared.cpu is not None:
            self._invoke_on_cpu()
            return
        bound, uploads = self.bound, self._uploads
        program = bound.program
        if program is None or bound.changed:
            program = self._bound_program()
        if program.needs_check:
            program.check_bindings()
        boundary, native = self._boundary, self._native
        if uploads.once or uploads.each_run:
            uploads.run(boundary, native)
        for tensor in self._states:
            boundary.upload_state(native, tensor)
        recorded = program.recorded or program.record_steps()
        recorded.commands.run()
        for tensor in self._states:
            boundary.state_written(native, tensor)
        for state in self._fed:
            state.is_written = True
        boundary.written(native, self._written)
        if boundary.waits:
            boundary.wait()
        if not recorded.has_run:
            recorded.has_run = True
            self._on_first_run()

    def _invoke_on_cpu(self) -> None:
        """Compute on the CPU, if there is anything to compute, and copy what other partitions read."""
        tensors, cpu = self.prepared.claims.tensors, self.prepared.cpu
        for tensor in self._uploads.tensors:
            self._boundary.upload_for_others(self._native, tensor, tensors[tensor])
        if cpu is not None:
            cpu.invoke(self._boundary, tensors)

    @property
    def is_recorded(self) -> bool:
        """Whether there are commands of a run, which the next run submits unless an object of another view is bound."""
        return self.program is not None and self.program.recorded is not None

    def record(self) -> int:
        """Build, bind, check and record the program, and return the number of its dispatches."""
        if self.prepared.is_empty or self.prepared.cpu is not None:
            return 0
        with self._boundary.memory.open_device.entered():
            program = self._bound_program()
            if program.needs_check:
                program.check_bindings()
            return program.record().dispatches

    def _bound_program(self) -> Program:
        """The program, built and tuned if necessary, with all current bindings."""
        self._boundary.memory.open_device.check()
        bound, program = self.bound, self.bound.program
        if program is None:
            self._check_states()
            # A state is left alone: each run that is measured would move it on.
            program = bound.build(self._name, self._graph, may_measure=not self._states and not self._variables)
        if bound.changed:
            self._plan_uploads(program, bound.bind_changed(program))
        return bound.tune(program, self._name, self._graph) if bound.untuned else program

    def _check_states(self) -> None:
        """Raise BindingError if a state that is fed back does not have the shape of its input now."""
        native, tensors = self._native, self.prepared.claims.tensors
        for state in self._fed:
            given = native.subgraph.tensors[state.input]
            check_shapes(state, tensors[state.output], native.shape(state.input), given)

    def _plan_uploads(self, program: Program, changed: set[int]) -> None:
        """Find the tensors that have to be copied from the CPU, after the objects of some have changed."""
        memory, inputs = self._boundary.memory, program.inputs
        if changed.isdisjoint(inputs):
            return
        tensors = [i for i in self._uploads.tensors if i in inputs and not memory.is_on_gpu((self.subgraph, i))]
        arrays = {i for i in tensors if memory.is_bound((self.subgraph, i))}
        constant = self.prepared.claims.constant_derived
        self._uploads.plan(tensors, constant=constant, arrays=arrays, changed=changed)

    def _graph(self) -> Graph:
        graph = self.prepared.claims.graph(self.operators, (*self.inputs, *self._variables), self.outputs)
        graph.states = self._own_states
        return graph

    @property
    def _own_states(self) -> tuple[tuple[int, int], ...]:
        """The outputs of the partition that feed inputs of its own, and these."""
        return tuple((state.output, state.input) for state in self._fed if state.input in self.inputs)

    @property
    def _name(self) -> str:
        """The program's name in the cache: subgraph, operators, inputs, the shapes from which all others follow, and
        the states that it feeds back.
        """
        states = f" {self._own_states}" if self._own_states else ""
        return f"{self.subgraph} {self.operators} {self.inputs} {self.prepared.source_shapes()}{states}"

    def release(self) -> None:
        """Free the program; the next run builds another one."""
        self.bound.release()

    def report(self, number: int) -> PartitionReport:
        """The partition's operators and tensors and, once it was recorded, the memory and dispatches that it takes."""
        program = self.bound.program if not self.bound.changed else None
        commands = program.record() if program is not None else None
        return PartitionReport(
            number,
            self.subgraph,
            self.operators,
            self.inputs,
            self.outputs,
            dispatches=commands.dispatches if commands else None,
            barriers=commands.barriers if commands else None,
            constants_nbytes=program.weights_nbytes if program else None,
            arena_nbytes=program.arena_nbytes if program else None,
        )
