"""A program's steps in one dispatch, as OpenCL C; and the test of the barrier that it needs."""

from __future__ import annotations

from .dialect import HERE, prelude, tile_text
from .macros import definitions, opencl_slice, opencl_words
from .one_dispatch import HEAD, ProgramSource, pool_names, renamed, undefined
from .source import Argument, KernelSource


def render_opencl_program(source: ProgramSource) -> str:
    """OpenCL C for one kernel named "program".

    Kernel arguments, in order: a pointer per memory, an image per picture, four float4 per picture, the table, its
    number of rows, the barrier's state (two words), the number of groups, and how often a group looks for the others.
    """
    lines = [prelude("cl"), (HERE / "barrier.cl").read_text()]
    lines += ["#undef LOCAL", "#define LOCAL invocation"]  # which is read for each step anew: see prelude.cl
    for number, kernel in enumerate(source.kernels):
        lines += _opencl_tile_function(source, number, kernel)
    parameters = [_opencl_pointer(source, memory) for memory in source.memories]
    parameters += [_opencl_image(argument, argument.memory) for argument in source.pictures]
    parameters += [f"float4 {a.memory}_parameter{i}" for a in source.pictures for i in range(4)]
    parameters += [
        "__global const int* table",
        "int rows",
        "volatile __global uint* state",
        "int groups",
        "uint max_spins",
    ]
    lines.append(
        f"__kernel __attribute__((reqd_work_group_size({source.group_size}, 1, 1)))\n"
        f"void program({', '.join(parameters)}) {{"
    )
    lines += [f"  __local {kind} {name}[{count}];" for name, (kind, count) in source.pools.items()]
    cases = [_opencl_case(number, kernel) for number, kernel in enumerate(source.kernels)]
    if source.copies_table:
        lines.append(_TABLE_COPY.replace("COUNT", str(source.steps * source.row)))
    loop = _OPENCL_LOOP.replace("TABLE", "__local int* row = copy" if source.copies_table else _TABLE)
    lines.append(loop.replace("ROW", str(source.row)).replace("CASES", "\n".join(cases)))
    return "\n".join(lines)


def render_opencl_barrier_test(group_size: int) -> str:
    """OpenCL C for a kernel "barrier_test" of ``group`` invocations: does the barrier hold, and is memory then seen?

    Kernel arguments: an int per group; one that counts what was not seen; state, groups and max_spins as above;
    the number of rounds.
    """
    header = f"__kernel __attribute__((reqd_work_group_size({group_size}, 1, 1)))\n"
    return "\n".join([prelude("cl"), (HERE / "barrier.cl").read_text(), header + _OPENCL_TEST])


_OPENCL_TEST = """\
void barrier_test(
  __global int* cells, __global int* stale_reads, volatile __global uint* state, int groups, uint max_spins, int rounds
) {
  __local uint local_state[2];
  int group = (int)get_group_id(0);
  begin_barriers(state, local_state);
  for (int round = 1; round <= rounds && local_state[0] == 0u; round++) {
    if (LOCAL == 0) { cells[group] = round; }
    device_barrier(state, local_state, groups, max_spins);
    if (cells[(group + 1) % groups] != round) { atomic_inc(stale_reads); }
    device_barrier(state, local_state, groups, max_spins);
  }
}
"""

_TABLE = "__global const int* row = table"
_TABLE_COPY = """\
  __local int copy[COUNT];
  for (int i = (int)get_local_id(0); i < COUNT; i += (int)get_local_size(0)) { copy[i] = table[i]; }"""
_OPENCL_LOOP = """\
  __local uint local_state[2];
  begin_barriers(state, local_state);
  for (int i = 0; i < rows && local_state[0] == 0u; i++) {
    TABLE + i * ROW;
    int invocation = reload_local_id();
    if (row[3] != 0) { device_barrier(state, local_state, groups, max_spins); }
    int tiles = local_state[0] == 0u ? row[1] : 0;
    int first = (int)get_group_id(0) - row[2];
    if (first < 0) { first += groups; }
    switch (row[0]) {
CASES
      default: break;
    }
  }
}
"""


def _opencl_tile_function(source: ProgramSource, number: int, kernel: KernelSource) -> list[str]:
    """One kernel's macros, helpers and tile function, and the macros undefined again."""
    helpers, body = tile_text(kernel)
    macros = renamed(number, kernel)
    parameters = ["int GROUP_ID", "int invocation", *(_opencl_pointer(source, memory) for memory in kernel.memories)]
    parameters += [
        f"__local {kind}* {pool}" for (kind, _, _), pool in zip(kernel.shared, pool_names(kernel), strict=True)
    ]
    parameters += [_opencl_image(argument, f"{argument.name}_image") for argument in kernel.pictures]
    parameters += [f"float4 {argument.name}_parameter{i}" for argument in kernel.pictures for i in range(4)]
    parameters += [f"int {argument.name}_offset" for argument in kernel.buffers]
    macros += definitions(kernel, opencl_slice(kernel), opencl_words(kernel))
    text = [*macros, f'#line 1 "{kernel.name}.kern"', helpers, f"void tile_{number}({', '.join(parameters)}) {{"]
    text += [f'#line {helpers.count(chr(10)) + 1} "{kernel.name}.kern"', body, "}"]
    return text + undefined(macros)


def _opencl_case(number: int, kernel: KernelSource) -> str:
    given = ["tile", "invocation", *kernel.memories, *pool_names(kernel)]
    given += [a.memory for a in kernel.pictures]
    given += [f"{a.memory}_parameter{i}" for a in kernel.pictures for i in range(4)]
    given += [f"row[{HEAD + i}]" for i in range(len(kernel.buffers))]
    # The next tile's, or step's, first writes to local memory come after this one's last reads.
    after = " BARRIER;" if kernel.shared else ""
    call = f"tile_{number}({', '.join(given)});{after}"
    return f"      case {number}: for (int tile = first; tile < tiles; tile += groups) {{ {call} }} break;"


def _opencl_pointer(source: ProgramSource, memory: str) -> str:
    const = "const " if all(a.access == "r" for a in source.memories[memory]) else ""
    return f"__global {const}float* {memory}"


def _opencl_image(argument: Argument, name: str) -> str:
    return f"{'read_only' if argument.access == 'r' else 'write_only'} image2d_t {name}"
