"""One partition of a model on the GPU, as LiteRT prepares, runs and frees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...interop.errors import DelegateError, ModelError
from ...kernels.tensor import RUNTIME_DTYPES, TensorInfo
from ..claim.claims import Claims
from ..claim.shape_rules import Shape
from ..litert.native import NativeGraph, Partitioned
from ..plan.binding import Binding
from ..plan.tensor_uses import Key
from ..report import PartitionReport
from ..transform.graph import Graph
from .boundary import BoundaryTensors
from .cpu_operators import CpuOperators
from .maker import ProgramMaker
from .messages import CLOSED, named_reasons, tensor_label
from .objects import check_objects
from .program import Program
from .uploads import Uploads, plan_uploads


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
        self._boundary, self._native, self._claims, self._maker = boundary, native, claims, maker
        self._sources, self._claim_again, self._make_cpu = sources, claim_again, make_cpu
        self._on_first_run = on_first_run
        self.subgraph, self.operators = native.index, partitioned.operators
        self.inputs = tuple(i for i in partitioned.inputs if i >= 0 and claims.tensors[i].constant is None)
        self.inputs = tuple(i for i in self.inputs if not self._is_handle(i))
        self.outputs = tuple(i for i in partitioned.outputs if not self._is_handle(i))
        self._written: tuple[Key, ...] = ()
        """The outputs that have elements, as the boundary knows them."""
        self._check_types()
        self._states = tuple(i for i in self.inputs if claims.tensors[i].variable)
        """Variable tensors, whose values LiteRT may set."""
        used = [variable for variable in claims.variables if {*variable.operators} & {*self.operators}]
        self._variables = {variable.tensor: variable for variable in used}
        """The variables that the partition reads or assigns, by the tensors that stand for their values."""
        copied = [tensor for tensor in self.inputs if tensor not in self._states]
        self._from_cpu = boundary.uses.add_partition(native.index, copied, self.outputs)
        self._uploads = Uploads()
        self._announced = self._announced_inputs()
        """The inputs of the model that this partition copies, if the interpreter reports when they are set."""
        self._prepared_for = self._model_shapes()
        self._is_empty = False
        """No output has elements, so there is nothing to compute."""
        self._cpu: CpuOperators | None = None
        """Set if operators cannot run on the GPU with the current shapes and types."""
        self._reasons: Mapping[int, str] = {}
        """The reason for each of these operators."""
        self.program: Program | None = None
        self.was_called = False
        """LiteRT has called ``invoke`` since the flag was cleared."""
        self._untuned = False
        """``program`` follows the rules and is to be tuned."""
        self._unbound: set[int] = set()
        """The boundary tensors whose current bindings ``program`` does not have yet."""

    def _announced_inputs(self) -> set[int]:
        if not self._boundary.inputs_are_announced or self.subgraph != 0:
            return set()
        return set(self._from_cpu) & set(self._native.subgraph.inputs)

    def _is_handle(self, tensor: int) -> bool:
        """Whether a tensor is the handle of a variable; programs use the variable's value instead."""
        return self._native.subgraph.tensors[tensor].dtype == "resource"

    def _check_types(self) -> None:
        for tensor in (*self.inputs, *self.outputs):
            info = self._claims.tensors[tensor]
            if info.dtype not in RUNTIME_DTYPES:
                raise DelegateError(
                    f"{tensor_label(tensor, info)} enters or leaves the GPU as {info.dtype}, which none can: this is a "
                    "defect of framebind, please report it"
                )

    # Shapes -----------------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Set the outputs' shapes from the inputs'; drop a program that was made for other shapes."""
        native = self._native
        shapes = {tensor: native.shape(tensor) for tensor in self._sources}
        others = self._other_types()
        if others or any(self._shape(tensor) != shape for tensor, shape in shapes.items()):
            self._adopt(self._claim_again(shapes), others)
        self._prepared_for = self._model_shapes()
        self._written = tuple((native.index, tensor) for tensor in self.outputs if 0 not in self._shape(tensor))
        for tensor in self._announced:
            self.input_set(tensor)  # LiteRT may have moved its memory
        for tensor in self.outputs:
            shape = self._output_shape(tensor)
            if native.shape(tensor) != shape or others:
                native.set_shape(tensor, shape)
            if 0 in shape:
                self._boundary.has_no_elements(native, tensor)

    def _other_types(self) -> dict[int, str]:
        """The reason for each operator that reads a tensor of the CPU whose type differs from the file's."""
        native, reasons = self._native, dict[int, str]()
        for index in self.operators:
            for tensor in set(self.inputs).intersection(native.subgraph.operators[index].inputs):
                declared, dtype = native.subgraph.tensors[tensor], native.dtype(tensor)
                if dtype != declared.dtype:
                    reasons[index] = f"tensor '{declared.name}' is {dtype}, not {declared.dtype} as the file says"
        return reasons

    def _adopt(self, claims: Claims, others: Mapping[int, str]) -> None:
        """Take over claims for other shapes. The CPU computes if the GPU cannot run every operator with them.

        It also does if there are ``others``, the reasons of operators on tensors whose types differ from the file's.
        If the CPU cannot run them either, raise ModelError and change nothing.
        """
        reasons, cpu = {**claims.unsupported, **others}, None
        all_empty = bool(self.outputs) and all(0 in claims.tensors[tensor].shape for tensor in self.outputs)
        is_empty = bool(reasons) and all_empty
        if reasons and not is_empty:
            if self._states or self._variables:
                raise ModelError(
                    f"the model does not take input shapes {self._model_shapes()} while its states are on the GPU: "
                    f"{named_reasons(self._native.subgraph, reasons)}. Use an interpreter without the delegate for them"
                )
            cpu = self._make_cpu()
            cpu.prepare(reasons)
        self._claims, self._cpu, self._is_empty, self._reasons = claims, cpu, is_empty, reasons
        self.release()

    @property
    def cpu_reasons(self) -> dict[int, str]:
        """The reason for each operator that is on the CPU because of the current shapes."""
        if self._cpu is None:
            return {}
        reasons = self._reasons
        return {
            i: reasons.get(i, f"operator {min(reasons)}, of the same partition, is on the CPU") for i in self.operators
        }

    def _output_shape(self, tensor: int) -> Shape:
        return self._shape(tensor) if self._cpu is None else self._cpu.shape(tensor)

    def _shape(self, tensor: int) -> Shape:
        return self._claims.tensors[tensor].shape

    def _model_shapes(self) -> list[Shape]:
        """The shapes of the model's inputs."""
        return [self._native.shape(i) for i in self._native.subgraph.inputs if i >= 0]

    def tensor(self, tensor: int) -> TensorInfo | None:
        """A boundary tensor with its current shape; None after an input was resized and before ``prepare``."""
        return self._claims.tensors[tensor] if self._model_shapes() == self._prepared_for else None

    # Binding ----------------------------------------------------------------------------------------------------------

    def rebind(self, tensor: int) -> None:
        """Take over the tensor's binding at the next run: another kind of object, or none."""
        if tensor in self.inputs or tensor in self.outputs:
            self._unbound.add(tensor)

    def exchange(self, tensor: int, binding: Binding) -> None:
        """Take over another object of the same kind, without new decisions.

        An output is exchanged at the next run: until then, results are read from the previous object.
        """
        if self.program is None or tensor in self._unbound or tensor in self.outputs:
            self.rebind(tensor)
            return
        self.program.bind(tensor, binding)

    def _bind(self, program: Program) -> None:
        """Bind changed objects, and find the tensors that have to be copied from the CPU."""
        graph, boundary = program.graph, self._boundary
        for tensor in self._unbound:
            if tensor in graph.inputs or tensor in graph.outputs:
                variable = self._variables.get(tensor)
                if variable is None:
                    binding = boundary.binding((self.subgraph, tensor), graph.tensors[tensor])
                else:
                    binding = boundary.variable_binding(variable)
                program.bind(tensor, binding)
        from_cpu = [i for i in self._from_cpu if i in graph.inputs and not boundary.is_on_gpu((self.subgraph, i))]
        arrays = {i for i in from_cpu if boundary.is_bound((self.subgraph, i))}
        self._uploads = plan_uploads(
            from_cpu,
            lasting=(self._claims.constant_derived | self._announced) - arrays,
            fresh=self._unbound,
            pending=self._uploads.once,
        )
        self._unbound.clear()

    def input_set(self, tensor: int) -> None:
        """Copy an input of the model before the next run, because it was set."""
        uploads, program = self._uploads, self.program
        if program is None or tensor not in self._announced or tensor in uploads.once:
            return
        if tensor in program.graph.inputs and not self._boundary.is_bound((0, tensor)):
            self._uploads = uploads._replace(once=(*uploads.once, tensor))

    def input_shown(self, tensor: int) -> None:
        """Copy an input of the model before each run, because a view of its memory was given away."""
        if tensor in self._announced:
            self._announced.remove(tensor)
            self._unbound.add(tensor)

    # Running ----------------------------------------------------------------------------------------------------------

    def invoke(self) -> None:
        """Bind changed objects, copy inputs from the CPU, run, and mark the outputs as being on the GPU."""
        self.was_called = True
        if self._boundary.closed:
            raise DelegateError(CLOSED)
        if self._boundary.needs_entering:
            with self._boundary.open_device.entered():
                self._invoke()
        else:
            self._invoke()

    def _invoke(self) -> None:
        if self._is_empty or self._cpu is not None:
            for tensor in self._from_cpu:
                self._boundary.upload_for_others(self._native, tensor, self._claims.tensors[tensor])
            if self._cpu is not None:
                self._cpu.invoke(self._boundary, self._claims.tensors)
            return
        program = self.program
        if program is None or self._unbound:
            program = self._bound_program()
        if program.needs_check:
            check_objects(program.bindings, self.outputs, self._claims.tensors)
            program.needs_check = False
        boundary, native = self._boundary, self._native
        if self._uploads.once:
            for tensor in self._uploads.once:
                boundary.upload(native, tensor)
            self._uploads = self._uploads._replace(once=())
        for tensor in self._uploads.each_run:
            boundary.upload(native, tensor)
        for tensor in self._states:
            boundary.upload_state(native, tensor)
        (program.commands or program.record()).run()
        for tensor in self._states:
            boundary.state_written(native, tensor)
        boundary.written(native, self._written)
        if boundary.waits:
            boundary.wait()
        if not program.has_run:
            program.has_run = True
            self._on_first_run()

    def record(self) -> int:
        """Build, bind and record the program, and return the number of its dispatches."""
        if self._is_empty or self._cpu is not None:
            return 0
        with self._boundary.open_device.entered():
            return self._bound_program().record().dispatches

    def _bound_program(self) -> Program:
        """The program, built if necessary, with all current bindings."""
        self._boundary.open_device.check()
        if self.program is None:
            # A state is left alone: each run that is measured would move it on.
            may_measure = not self._states and not self._variables
            self.program, self._untuned = self._maker.first(self._name, self._graph, may_measure=may_measure)
            self._unbound = {*self.program.graph.inputs, *self.program.graph.outputs}
        if self._unbound:
            self._bind(self.program)
        if self._untuned:
            check_objects(self.program.bindings, self.outputs, self._claims.tensors)
            self.program, self._untuned = self._maker.tune(self.program, self._name, self._graph), False
        return self.program

    def _graph(self) -> Graph:
        return self._claims.graph(self.operators, (*self.inputs, *self._variables), self.outputs)

    @property
    def _name(self) -> str:
        """The program's name in the cache: subgraph, operators, inputs, and the shapes from which all others follow."""
        shapes = [self._shape(tensor) for tensor in self._sources]
        return f"{self.subgraph} {self.operators} {self.inputs} {shapes}"

    def release(self) -> None:
        """Free the program; the next run builds another one."""
        if self.program is not None:
            self.program.release()
            self.program = None

    def report(self, number: int) -> PartitionReport:
        """The partition's operators and tensors and, once it was recorded, the memory and dispatches that it takes."""
        program = self.program if not self._unbound else None
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
