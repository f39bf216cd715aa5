"""The parts of a kernel's text that OpenCL C and CUDA C++ share: parameters, and the functions of a program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from .one_dispatch import HEAD, ProgramSource, pool_names
from .source import Argument, KernelSource, TileText
from .texts import awaits_inputs, prelude

STATIC_BYTES = 48 << 10
"""The most local memory that a kernel may declare. More is given to it by the launch."""


class CFamily(ABC):
    """The base of the dialects OpenCL C and CUDA C++, which implement Dialect (dialect.py)."""

    extension = ""
    """The ending of its prelude's file."""
    global_space = ""
    """The words before the type of a pointer to memory."""
    local_space = ""
    """The words before the type of a pointer to local memory."""
    inline = ""
    """The words before a function of a program."""
    barrier: Sequence[tuple[str, str]] = ()
    """The types and names of what ``wait_at_barrier`` takes."""

    @abstractmethod
    def image(self, argument: Argument, name: str) -> str:
        """The parameter of a texture."""

    @abstractmethod
    def entry(self, source: KernelSource, elements: Mapping[str, str], tile: TileText) -> list[str]:
        """The lines of a kernel after its macros: helper functions, and the entry point ``source.name``."""

    def kernel(self, source: KernelSource, elements: Mapping[str, str], macros: Sequence[str], tile: TileText) -> str:
        return self.with_prelude([*macros, *self.entry(source, elements, tile)])

    def with_prelude(self, lines: Sequence[str]) -> str:
        """The text of these lines, after what they use of the prelude."""
        text = "\n".join(lines)
        return f"{prelude(self.extension, text)}\n{text}"

    def element(self, arguments: Sequence[Argument]) -> str:
        """Returns float always: each load and store casts the pointer."""
        return "float"

    def picture_macros(self, kernel: KernelSource) -> list[str]:
        """Returns no macros: pictures are parameters of the functions here."""
        return []

    def tile_function(self, source: ProgramSource, number: int, tile: TileText) -> list[str]:
        kernel = source.kernels[number]
        parameters = ["int GROUP_ID", "int invocation", "int waits", *(" ".join(each) for each in self.barrier)]
        parameters += [self._memory(memory, "float", source.memories[memory]) for memory in kernel.memories]
        pools = zip(kernel.shared, pool_names(kernel), strict=True)
        parameters += [f"{self.local_space}{kind}* {pool}" for (kind, _, _), pool in pools]
        parameters += [self.image(argument, f"{argument.name}_image") for argument in kernel.textures]
        parameters += [f"float4 {a.name}_parameter{i}" for a in kernel.pictures for i in range(a.quads)]
        parameters += [f"int {argument.name}_offset" for argument in kernel.buffers]
        head = f"{self.inline}void tile_{number}({', '.join(parameters)}) {{"
        first = [] if awaits_inputs(kernel) else ["AWAIT_INPUTS;"]
        return [f'#line 1 "{kernel.name}.kern"', tile.helpers, head, *first, line_of_body(kernel, tile), tile.body, "}"]

    def awaiting(self) -> list[str]:
        """AWAIT_INPUTS in a program: a work-group's first tile of a step waits at the barrier before the step."""
        given = ", ".join(name for _, name in self.barrier)
        return [
            "#undef AWAIT_INPUTS",
            f"#define AWAIT_INPUTS if (waits != 0) {{ wait_at_barrier({given}); waits = 0; }}",
        ]

    def kernel_parameters(self, source: KernelSource, elements: Mapping[str, str]) -> str:
        """The parameters of one kernel's entry point."""
        parameters = [self._memory(memory, elements[memory], users) for memory, users in source.memories.items()]
        parameters += [self.image(argument, f"{argument.name}_image") for argument in source.textures]
        parameters += [f"int {argument.name}_offset" for argument in source.buffers]
        parameters += [f"int {argument.name}_stride" for argument in source.buffers if argument.takes_stride]
        parameters += [f"float4 {a.name}_parameter{i}" for a in source.pictures for i in range(a.quads)]
        return ", ".join(parameters)

    def program_parameters(self, source: ProgramSource, control: Sequence[str]) -> str:
        """The parameters of a program's entry point. The last ones are ``control``: the table and the barrier."""
        parameters = [self._memory(memory, "float", users) for memory, users in source.memories.items()]
        parameters += [self.image(argument, argument.memory) for argument in source.textures]
        parameters += [f"float4 {a.memory}_parameter{i}" for a in source.pictures for i in range(a.quads)]
        return ", ".join([*parameters, *control])

    def _memory(self, name: str, element: str, users: Sequence[Argument]) -> str:
        """The parameter of a buffer that holds the arguments ``users``."""
        read_only = all(argument.access == "r" for argument in users)
        return f"{self.global_space}{'const ' if read_only else ''}{element}* {name}"


def line_of_body(kernel: KernelSource, tile: TileText) -> str:
    """The directive that gives the body the line numbers of its file."""
    newlines = tile.helpers.count("\n")
    return f'#line {newlines + 1} "{kernel.name}.kern"'


def switch_cases(barrier: Sequence[tuple[str, str]], kernels: Sequence[KernelSource]) -> str:
    """The cases of a program's switch: each calls the tile function of a kernel for the work-group's tiles."""
    first = ["tile", "invocation", "tile == first ? row[3] : 0", *(name for _, name in barrier)]
    return "\n".join(_case(number, first, kernel) for number, kernel in enumerate(kernels))


def _case(number: int, first: Sequence[str], kernel: KernelSource) -> str:
    given = [*first, *kernel.memories, *pool_names(kernel)]
    given += [a.memory for a in kernel.textures]
    given += [f"{a.memory}_parameter{i}" for a in kernel.pictures for i in range(a.quads)]
    given += [f"row[{HEAD + i}]" for i in range(len(kernel.buffers))]
    # The next tile's, or step's, first writes to local memory come after this one's last reads.
    after = " BARRIER;" if kernel.shared else ""
    call = f"tile_{number}({', '.join(given)});{after}"
    return f"      case {number}: for (int tile = first; tile < tiles; tile += groups) {{ {call} }} break;"


def dynamic_bytes(source: KernelSource) -> int:
    """The local memory of a kernel that it cannot declare: all, or none."""
    return source.local_bytes if source.local_bytes > STATIC_BYTES else 0
