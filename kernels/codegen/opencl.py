"""OpenCL C 1.2: a kernel function per kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..views import Quantized, Strided
from .c_family import CFamily, dynamic_bytes, line_of_body, switch_cases
from .one_dispatch import ProgramSource
from .source import Argument, Buffer, KernelSource, TileText, holds_integers, storage_of
from .texts import barrier

_CONTROL = (
    "__global const int* table", "int rows", "volatile __global uint* barrier_state", "int groups",
    "uint barrier_spins",
)  # fmt: skip
_WRAPPING = (("ADD", "+"), ("SUB", "-"), ("MUL", "*"))
_INTEGERS = {"int8": "char", "uint8": "uchar", "int16": "short", "bool": "uchar", "int32": "int", "int64": "long"}
_WHOLE = {"i32": "int", "u8": "uchar", "u16": "ushort"}
"""The types of tensors of whole numbers, by storage."""


class OpenCl(CFamily):
    """OpenCL C. Implements Dialect (dialect.py), which says what each method returns.

    A kernel has the name ``source.name`` and the arguments, in order: a pointer per memory, an image per texture, an
    int offset per buffer argument, and the float4 of each picture. Its global size is group size * group count.

    A program's kernel has the name "program" and the arguments: a pointer per memory, an image per texture, the
    float4 of each picture, the table, its number of rows, the barrier's state (two words), the number of groups,
    and the limit of polls.

    The test of the barrier is a kernel "barrier_test" with the arguments: an int per group, a count of stale reads, the
    barrier's state, the number of groups, the limit of polls, the number of rounds.
    """

    name = "opencl"
    extension = "cl"
    words = "uint2", "(uint2)(0u)", "__local uint2*"
    global_space = "__global "
    local_space = "__local "
    barrier = (
        ("volatile __global uint*", "barrier_state"), ("__local uint*", "barrier_seen"), ("uint", "barrier_spins"),
    )  # fmt: skip

    def image(self, argument: Argument, name: str) -> str:
        """The parameter of a texture."""
        return f"{'read_only' if argument.access == 'r' else 'write_only'} image2d_t {name}"

    def load(self, argument: Argument, buffer: Buffer, index: str) -> str:
        if isinstance(argument.view, Quantized):
            if argument.view.dtype == "float16":
                return f"vload_half4({index}, {_cast(buffer, 'half')})"
            kind = _INTEGERS[argument.view.dtype]
            return f"convert_float4(vload4({index}, (__global const {kind}*){buffer.name}))"
        if isinstance(argument.view, Strided):
            half = f"vload_half({index}, {_cast(buffer, 'half')})"
            return half if argument.unit == 2 else f"{buffer.name}[{index}]"
        if storage_of(argument) == "f16":
            return f"LOAD_HALF4({index}, {_cast(buffer, 'half')})"
        whole = _WHOLE.get(storage_of(argument) or "f32")
        if whole is not None:
            return f"convert_float4(({_cast(buffer, f'{whole}4')})[{index}])"
        return f"({_cast(buffer, 'float4')})[{index}]"

    @property
    def integer_words(self) -> Sequence[str]:
        """Macros of int4. Signed overflow is undefined, so sums and products are computed as unsigned. FLOATS is
        float4: in such a kernel the word float4 itself becomes int4.
        """
        return (
            "#define FLOATS float4",
            "#define I4(x) ((int4)(x))",
            "#define I4V(a, b, c, d) ((int4)(a, b, c, d))",
            "#define IS_LESS(v, w) (((v) < (w)) & 1)",
            "#define IS_EQUAL(v, w) (((v) == (w)) & 1)",
            *(f"#define WRAP_{n}(v, w) as_int4(as_uint4(v) {o} as_uint4(w))" for n, o in _WRAPPING),
        )

    def load_integers(self, argument: Argument, buffer: Buffer, index: str) -> str:
        if isinstance(argument.view, Quantized):
            kind = _INTEGERS[argument.view.dtype]
            return f"convert_int4(vload4({index}, (__global const {kind}*){buffer.name}))"
        if holds_integers(argument):
            return f"({_cast(buffer, 'int4')})[{index}]"
        if isinstance(argument.view, Strided):
            return f"(int)({self.load(argument, buffer, index)})"
        if storage_of(argument) == "f16":
            return f"convert_int4({self.load(argument, buffer, index)})"
        return f"convert_int4(({_cast(buffer, 'FLOATS')})[{index}])"

    def store_integers(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        if holds_integers(argument):
            return f"({_cast(buffer, 'int4')})[{index}] = {value}"
        if isinstance(argument.view, Quantized | Strided):
            return self.store(argument, buffer, index, value)
        if storage_of(argument) == "f16":
            return self.store(argument, buffer, index, f"convert_float4({value})")
        return f"({_cast(buffer, 'FLOATS')})[{index}] = convert_float4({value})"

    def store(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        if isinstance(argument.view, Quantized):
            if argument.view.dtype == "float16":
                return f"vstore_half4_rte({value}, {index}, {_cast(buffer, 'half')})"
            kind = _INTEGERS[argument.view.dtype]
            return f"vstore4(convert_{kind}4({value}), {index}, (__global {kind}*){buffer.name})"
        if isinstance(argument.view, Strided):
            half = f"vstore_half_rte({value}, {index}, {_cast(buffer, 'half')})"
            return half if argument.unit == 2 else f"{buffer.name}[{index}] = {value}"
        if storage_of(argument) == "f16":
            return f"STORE_HALF4({value}, {index}, {_cast(buffer, 'half')})"
        whole = _WHOLE.get(storage_of(argument) or "f32")
        if whole is not None:
            return f"({_cast(buffer, f'{whole}4')})[{index}] = convert_{whole}4({value})"
        return f"({_cast(buffer, 'float4')})[{index}] = {value}"

    def load_words(self, argument: Argument, buffer: Buffer, index: str) -> str:
        return f"({_cast(buffer, 'uint2')})[{index}]"

    def load_sample(self, argument: Argument, buffer: Buffer, index: str) -> str:
        kind, largest = ("uchar", 255) if argument.unit == 1 else ("ushort", 65535)
        return f"convert_float(({_cast(buffer, kind)})[{index}]) / {largest}.0f"

    def entry(self, source: KernelSource, elements: Mapping[str, str], tile: TileText) -> list[str]:
        lines = [f'#line 1 "{source.name}.kern"', tile.helpers]
        lines.append(
            f"{_attributes(source.group_size)}void {source.name}({self.kernel_parameters(source, elements)}) {{"
        )
        lines += _local_arrays(source)
        return [*lines, "  int GROUP_ID = (int)get_group_id(0);", line_of_body(source, tile), tile.body, "}\n"]

    def program(self, source: ProgramSource, elements: Mapping[str, str], functions: Sequence[str]) -> str:
        """The text of a program. LOCAL is read for each step anew: reload_local_id in prelude.cl."""
        lines = [barrier("cl"), "#undef LOCAL", "#define LOCAL invocation", *self.awaiting(), *functions]
        parameters = self.program_parameters(source, _CONTROL)
        lines.append(f"{_attributes(source.group_size)}void program({parameters}) {{")
        lines += [f"  __local {kind} {name}[{count}];" for name, (kind, count) in source.pools.items()]
        if source.copies_table:
            lines.append(_TABLE_COPY.replace("COUNT", str(source.steps * source.row)))
        loop = _LOOP.replace("TABLE", "__local int* row = copy" if source.copies_table else _TABLE)
        lines.append(loop.replace("ROW", str(source.row)).replace("CASES", switch_cases(self.barrier, source.kernels)))
        return self.with_prelude(lines)

    def barrier_test(self, group_size: int) -> str:
        """The text of the kernel that tests the barrier before its first use."""
        return self.with_prelude([barrier("cl"), _attributes(group_size) + _TEST])


OPENCL = OpenCl()


# Declarations ---------------------------------------------------------------------------------------------------------


def _cast(buffer: Buffer, kind: str) -> str:
    return f"(__global {'const ' if buffer.read_only else ''}{kind}*){buffer.name}"


def _local_arrays(source: KernelSource) -> list[str]:
    """The declarations of a kernel's local arrays. What OpenCL does not admit is hidden: see SM_90A in prelude.cl."""
    declared = [f"  __local {kind} {name}[{count}];" for kind, name, count in source.shared]
    if not dynamic_bytes(source) or any(kind != "float4" for kind, _, _ in source.shared):
        return declared
    ptx = f".shared .align 16 .b8 local_arrays[{source.local_bytes}]; mov.u32 %0, local_arrays;"
    lines, place = ["  uint local_arrays;", f'  asm volatile(SM_90A "{ptx}" : "=r"(local_arrays));'], 0
    for _, name, count in source.shared:
        lines.append(f"  __local float4* {name} = (__local float4*)(size_t)local_arrays + {place};")
        place += count
    return ["#ifdef WARPGROUPS", *lines, "#else", *declared, "#endif"]


def _attributes(group_size: int) -> str:
    return f"__kernel __attribute__((reqd_work_group_size({group_size}, 1, 1)))\n"


# Entry points ---------------------------------------------------------------------------------------------------------

_TEST = """\
void barrier_test(
  __global int* cells, __global int* stale_reads, volatile __global uint* state, int groups, uint max_spins, int rounds
) {
  __local uint local_state[2];
  int group = (int)get_group_id(0);
  begin_barriers(state, local_state);
  for (int round = 1; round <= rounds && local_state[0] == 0u; round++) {
    if (LOCAL == 0) { cells[group] = round; }
    arrive_at_barrier(state, groups);
    wait_at_barrier(state, local_state, max_spins);
    if (cells[(group + 1) % groups] != round) { atomic_inc(stale_reads); }
    arrive_at_barrier(state, groups);
    wait_at_barrier(state, local_state, max_spins);
  }
}
"""
_TABLE = "__global const int* row = table"
_TABLE_COPY = """\
  __local int copy[COUNT];
  for (int i = (int)get_local_id(0); i < COUNT; i += (int)get_local_size(0)) { copy[i] = table[i]; }"""
_LOOP = """\
  __local uint barrier_seen[2];
  begin_barriers(barrier_state, barrier_seen);
  for (int i = 0; i < rows && barrier_seen[0] == 0u; i++) {
    TABLE + i * ROW;
    int invocation = reload_local_id();
    if (row[3] != 0) { arrive_at_barrier(barrier_state, groups); }
    int tiles = row[1];
    int first = (int)get_group_id(0) - row[2];
    if (first < 0) { first += groups; }
    switch (row[0]) {
CASES
      default: break;
    }
    if (row[3] != 0 && first >= tiles) { wait_at_barrier(barrier_state, barrier_seen, barrier_spins); }
  }
}
"""
