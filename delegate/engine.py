"""The engine behind a GpuDelegate: the model's device, boundary tensors and partitions, and LiteRT's callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..interop.device import Device
from ..interop.discovery.devices import device_of, open_device
from ..interop.errors import DelegateError, DeviceError
from ..kernels.target import Target
from .cache.cache import Cache
from .cache.stopwatch import Stopwatch
from .claim.claims import Claims, claim, claim_again
from .claim.selection import Selection, select
from .claim.shape_rules import Shape, shape_sources
from .claim.variables import Variables, find_variables
from .litert.native import NativeDelegate, NativeGraph, Partitioned, log
from .options import GpuDelegateOptions
from .read.checks import callers_of
from .read.model import Model, Subgraph
from .report import Location, warn_of_low_clock, warn_of_software, warning_text
from .run.batches import first_object
from .run.bound_tensors import BoundTensors
from .run.boundary import BoundaryTensors
from .run.cpu_operators import CpuOperators
from .run.feedback import Feedback, State, check_on_gpu, resolved
from .run.main_subgraph import MainSubgraph
from .run.maker import ProgramMaker
from .run.messages import CLOSED
from .run.partition import Partition
from .run.program import Program


class Engine:
    """Runs a model's operators on the GPU for one interpreter. Implements ``litert.native.DelegateCallbacks``.

    LiteRT calls ``claim`` for each subgraph, ``make_kernel`` for each part of it that the GPU takes, and
    ``copy_to_cpu`` if the CPU reads a result. GpuDelegate is the public interface.
    """

    def __init__(self, options: GpuDelegateOptions, feedback: Feedback | None = None) -> None:
        """``feedback`` are the states that are fed back, as for GpuDelegate."""
        self.options = options
        self._feedback: Feedback = feedback or {}
        self._states: tuple[State, ...] = ()
        self.model: Model | None = None
        self.boundary = BoundaryTensors(options.wait_type)
        self.partitions: list[Partition] = []
        """The partitions of all subgraphs, in the order in which LiteRT made them."""
        self.claims: dict[int, Claims] = {}
        self.selections: dict[int, Selection] = {}
        """The claims and selections, by the number of the subgraph."""
        self.unrolled: dict[int, Location] = {}
        """The subgraphs that LiteRT does not run, and the operator on the GPU that runs each: a loop, a composite, or a
        reduction whose body it is.
        """
        self.least_multiply_adds: float | None = None
        """Multiply-adds per run from which on a subgraph is taken, if the GPU can run nearly all of it in few
        partitions; None takes whatever the GPU can run.
        """
        self.stopwatch = Stopwatch()
        self._cache: Cache | None = None
        self.maker = ProgramMaker(options.storage, self.stopwatch, tuned=options.is_tuned)
        self.main = MainSubgraph(self.boundary, self._move_to_api_of)
        """The partitions of the main subgraph, and what is bound to its tensors."""
        self._others: dict[int, BoundTensors] = {}
        """The partitions of other subgraphs, by number, and what is bound to their tensors."""
        self._variables: Variables | None = None
        """The variables of the model, once they were looked for."""
        self._reported: set[int] = set()
        self._retired: list[NativeDelegate] = []

    def bound_tensors(self, subgraph: int) -> BoundTensors:
        """The partitions of a subgraph, and what is bound to its tensors."""
        if not subgraph:
            return self.main
        if subgraph not in self._others:
            self._others[subgraph] = BoundTensors(subgraph, self.boundary, self.main.graph, self._move_to_api_of)
        return self._others[subgraph]

    @property
    def programs(self) -> list[Program]:
        """The programs of the partitions that have one: it is made when a partition first runs."""
        return [partition.program for partition in self.partitions if partition.program is not None]

    # Life -------------------------------------------------------------------------------------------------------------

    def attach(self, model: Model | None, read_seconds: float = 0.0) -> int:
        """Serve an interpreter; returns the address of the TfLiteDelegate for it.

        ``model`` is the interpreter's model, and ``read_seconds`` the time of reading it. An interpreter that gives
        them also takes the errors of the callbacks (``take_error``) and reports inputs (``input_set``). LiteRT's own
        interpreter gives None.
        """
        self.check_open()
        if self.main.native is not None:
            raise DelegateError("this GpuDelegate already serves an interpreter: make one for each interpreter")
        self.model = model or self.model
        if self.model is None:
            raise DelegateError(
                "LiteRT's own Interpreter does not tell a delegate which model it runs: make it with "
                "GpuDelegate(model_path=...), or use framebind.Interpreter"
            )
        if self._feedback and not self._states:
            self._states = resolved(self.model, self._feedback)
            self.main.set_states(self._states)
        self.stopwatch.seconds["read"] += read_seconds
        self.boundary.inputs_are_announced = model is not None
        self.main.native = NativeDelegate(self, self.model, quiet=model is not None)
        return self.main.native.pointer

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self.boundary.closed

    def check_open(self) -> None:
        """Raise DelegateError if ``close`` was called."""
        if self.closed:
            raise DelegateError(CLOSED)

    @property
    def is_attached(self) -> bool:
        """Whether an interpreter is served."""
        return self.main.native is not None

    def detach(self) -> None:
        """Let go of the interpreter, so that another one can be served. Bound objects stay bound."""
        for partition in self.partitions:
            partition.release()
        self.partitions.clear()
        for bound in (self.main, *self._others.values()):
            bound.clear()
        for known in (self.claims, self.selections, self.unrolled, self._reported):
            known.clear()
        self.boundary.release()
        self.boundary.forget_states()
        self.boundary.memory.release_variables()
        self._variables = None
        self.boundary.preserves_tensors = False
        if self.main.native is not None:
            self._retired.append(self.main.native)  # LiteRT still calls it when it destroys the interpreter
            self.main.native = None

    def take_error(self) -> BaseException | None:
        """The exception behind LiteRT's last error, if it was one of ours. It is returned only once."""
        return self.main.native.take_error() if self.main.native is not None else None

    def close(self) -> None:
        """Free everything on the GPU and let go of the bound objects. Calling it again does nothing."""
        if self.closed:
            return
        self.boundary.closed = True
        for bound in (self.main, *self._others.values()):
            bound.forget()
        self._save_last()
        for partition in self.partitions:
            partition.release()
        self.boundary.close()
        if self.device is not None:
            self.device.close()

    def _save_last(self) -> None:
        """Save what was compiled and never ran, if its context can be used here: another one has other programs of the
        same names.
        """
        if self._cache is None or self.device is None or not self._cache.is_new:
            return
        try:
            with self.device.entered():
                self.device.check()
                self._cache.save()
        except DeviceError as reason:
            log.info(f"what was compiled and never ran is not kept for the next start: {reason}")

    # LiteRT's calls ---------------------------------------------------------------------------------------------------

    def claim(self, graph: NativeGraph) -> Sequence[int]:
        """Choose the operators of a subgraph that go to the GPU. Logs the others with the reasons, once."""
        self.check_open()
        subgraph = graph.subgraph
        caller = self._caller_on_gpu(graph.index)
        if caller is not None:
            self.unrolled[graph.index] = caller
            return ()
        shapes = {tensor: graph.shape(tensor) for tensor in subgraph.inputs}
        with self.stopwatch.phase("claim"):
            known = dict[str, Any](self._claim_arguments(graph), number=graph.index, store=lambda: self._cache)
            claims = claim(subgraph, self._target, shapes=shapes, **known)
        self.claims[graph.index] = claims
        # LiteRT applies its delegates to a subgraph again after inputs were resized.
        self.partitions = [partition for partition in self.partitions if partition.subgraph != graph.index]
        self.bound_tensors(graph.index).clear()
        selection = self.selections[graph.index] = select(graph, claims, self.options, self.least_multiply_adds)
        on_gpu = set(selection.operators)
        if graph.index == 0:
            check_on_gpu(self._states, subgraph, on_gpu, {**claims.unsupported, **selection.not_selected})
        if selection.preserves_tensors:
            self.boundary.preserves_tensors = True
        self.boundary.begin_subgraph(graph.index, [o for o in subgraph.operators if o.index not in on_gpu])
        if not selection.does_not_pay:
            self._report(graph, claims, len(selection.operators))
        return selection.operators

    def _caller_on_gpu(self, number: int) -> Location | None:
        """The operator on the GPU that runs a subgraph, if it is the only one; LiteRT shows callers first."""
        callers = callers_of(number, self._subgraphs)
        on_gpu = [
            caller in self.unrolled or (caller in self.selections and operator in self.selections[caller].operators)
            for caller, operator in callers
        ]
        return callers[0] if callers and all(on_gpu) else None

    def _report(self, graph: NativeGraph, claims: Claims, taken: int) -> None:
        """Log once for each subgraph: LiteRT asks again whenever inputs were resized."""
        if graph.index in self._reported:
            return
        self._reported.add(graph.index)
        subgraph = graph.subgraph
        if claims.unsupported:
            log.warning(warning_text(graph.index, subgraph, claims.unsupported, taken))
        log.info(f"operators of subgraph '{subgraph.name}' on the GPU: {taken} of {len(subgraph.operators)}")

    def make_kernel(self, graph: NativeGraph, partition: Partitioned) -> Partition:
        """Make the program of one partition; LiteRT asks for them in the order in which they run."""
        on_gpu = self.selections[graph.index].operators
        made = Partition(
            self.boundary, graph, self.claims[graph.index], partition, self.maker,
            sources=shape_sources(graph.subgraph, partition.operators, on_gpu),
            claim_again=partial(self._claim_again, graph, partition.operators),
            make_cpu=partial(self._cpu_operators, graph, partition), on_first_run=self._end_start,
        )  # fmt: skip
        self.partitions.append(made)
        self.bound_tensors(graph.index).add(made)
        return made

    def _claim_again(self, graph: NativeGraph, operators: Sequence[int], shapes: Mapping[int, Shape]) -> Claims:
        """New claims of a partition's operators, after shapes have changed."""
        with self.stopwatch.phase("claim"):
            return claim_again(graph.subgraph, self._target, operators, shapes=shapes, **self._claim_arguments(graph))

    def _claim_arguments(self, graph: NativeGraph) -> dict[str, Any]:
        """The facts that ``claim`` takes besides the subgraph, by the names of its parameters."""
        if self._variables is None:
            self._variables = find_variables(self.model) if self.model is not None else Variables()
        return {
            "quantized": self.options.enable_quantization,
            "subgraphs": self._subgraphs,
            "variables": self._variables if graph.index == 0 else Variables(),
        }

    @property
    def _subgraphs(self) -> tuple[Subgraph, ...]:
        return self.model.subgraphs if self.model is not None else ()

    def _cpu_operators(self, graph: NativeGraph, partition: Partitioned) -> CpuOperators:
        assert self.model is not None, "LiteRT calls a delegate that was attached with its model"
        return CpuOperators(self.model.content, graph, partition.operators, partition.outputs)

    def copy_to_cpu(self, graph: NativeGraph, tensor: int) -> None:
        """Copy a tensor that the GPU computed to the CPU's memory, counted."""
        self.check_open()
        with self.boundary.memory.open_device.entered():
            self.boundary.download(graph, tensor)

    def reset_feedback(self) -> None:
        """Let the next run read zeros in the place of each state that is fed back."""
        self.check_open()
        if not self._feedback:
            raise DelegateError("nothing is fed back: name the pairs with GpuDelegate(feedback={output: input})")
        if self.device is not None:
            with self.device.entered():
                self.main.reset_states()

    def _end_start(self) -> None:
        """Keep what was compiled, and say if the GPU idled long meanwhile."""
        self._save()
        device = self.boundary.memory.device
        if device is not None and device.traits.lowers_clock:
            warn_of_low_clock(self.stopwatch.seconds["compile"])

    def _save(self) -> None:
        """Save the cache once all programs have run, because some drivers compile at the first run."""
        if self._cache is not None and self._cache.is_new and len(self.programs) == len(self.partitions):
            self.boundary.memory.open_device.finish()
            self._cache.save()

    # The device -------------------------------------------------------------------------------------------------------

    @property
    def device(self) -> Device | None:
        """The device that the model runs on; None as long as no operator needs one."""
        return self.boundary.memory.device

    def running_device(self) -> Device:
        """The device. Raises DelegateError if nothing runs on one."""
        self.check_open()
        device = self.boundary.memory.device
        if device is None:
            raise DelegateError("no operator runs on the GPU, so there is nothing to wait for; the log says why")
        return device

    def _target(self) -> Target:
        """The device as operators are lowered for it; opens one if there is none. No phase counts the time."""
        with self.stopwatch.pause():
            device = self.device or open_device(self.options.backend)
            if self.device is None:
                if device.traits.software:
                    warn_of_software(device.traits.name)
                self.use(device)
        return device.traits.target

    def use(self, device: Device) -> None:
        """Run on a device that the caller has opened, and close it at the end."""
        self.boundary.memory.use(device)
        if self.options.serialization_dir is not None and self.model is not None:
            self._cache = self.stopwatch.time("read", Cache, self.options, self.model.content, device.traits)
        self.maker.use(device, self._cache)

    def _move_to_api_of(self, obj: Any) -> None:
        """Backend "auto": run on the API of the first object that is bound, while nothing is on the other one yet."""
        untouched = self.boundary.memory.is_empty and not self.programs
        if self.options.backend == "auto" and self.device is not None and untouched:
            other = device_of(first_object(obj), self.device)
            if other is not None:
                self.device.close()
                self.use(other)

    def graph(self, subgraph: int) -> NativeGraph | None:
        """LiteRT's side of a subgraph, by number; None before LiteRT has shown it."""
        return self.main.graph(subgraph)
