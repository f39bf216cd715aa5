"""A program's steps in one dispatch, as GLSL; and the test of the barrier that it needs."""

from __future__ import annotations

from .dialect import HERE, glsl_block, glsl_head, glsl_picture, tile_text
from .macros import definitions, glsl_element, glsl_slice
from .one_dispatch import HEAD, ProgramSource, pool_names, renamed, undefined
from .source import KernelSource

UNIFORMS = ("rows", "groups", "max_spins")
"""Ints that a run is given, at the locations 0, 1, 2."""


def render_glsl_program(source: ProgramSource, version: str) -> str:
    """GLSL for one compute shader; ``version`` is "430 core" or "310 es".

    Bindings: buffer i is the i-th of ``source.memories``, and the one behind them the barrier's state (two words);
    uniform buffer 0 is the table; texture or image unit i is the i-th of ``source.pictures``. Uniform locations:
    UNIFORMS, then four vec4 for each picture.
    """
    elements = {memory: glsl_element(arguments) for memory, arguments in source.memories.items()}
    lines = glsl_head(version, source.group_size)
    for binding, (memory, arguments) in enumerate(source.memories.items()):
        qualifier = "readonly " if all(a.access == "r" for a in arguments) else "coherent "
        lines.append(glsl_block(binding, qualifier, elements[memory], memory))
    lines.append(
        f"layout(std140, binding = 0) uniform block_table {{ ivec4 table[{source.steps * source.row // 4}]; }};"
    )
    for unit, argument in enumerate(source.pictures):
        location = len(UNIFORMS) + 4 * unit
        lines.append(f"layout(location = {location}) uniform vec4 {argument.memory}_parameters[4];")
        lines.append(glsl_picture(argument, argument.memory, unit))
    lines += [f"shared {kind} {name}[{count}];" for name, (kind, count) in source.pools.items()]
    if source.copies_table:
        lines.append(f"shared ivec4 copy[{source.steps * source.row // 4}];")
    lines += _barrier(len(source.memories))
    for number, kernel in enumerate(source.kernels):
        lines += _tile_function(number, kernel, elements)
    rows = "copy" if source.copies_table else "table"
    cases = [_case(number, kernel, rows) for number, kernel in enumerate(source.kernels)]
    loop = _LOOP.replace("TABLE", rows).replace("COPY", _TABLE_COPY if source.copies_table else "")
    lines.append(loop.replace("CASES", "\n".join(cases)).replace("QUARTER", str(source.row // 4)))
    return "\n".join(lines)


def render_glsl_barrier_test(group_size: int, version: str) -> str:
    """GLSL for a compute shader of ``group`` invocations: does the barrier hold, and is memory then seen?

    Bindings: an int per group; one that counts what was not seen; the barrier's state. Uniforms: the number of rounds
    at ``rows``, groups and max_spins.
    """
    blocks = [glsl_block(i, "coherent ", "int", name) for i, name in enumerate(("cells", "stale_reads"))]
    return "\n".join([*glsl_head(version, group_size), *blocks, *_barrier(2), _TEST])


def _barrier(binding: int) -> list[str]:
    block = "buffer block_state { uint arrivals; uint timed_out; };"
    state = f"layout(std430, binding = {binding}) coherent volatile {block}"
    uniforms = [f"layout(location = {i}) uniform int {name};" for i, name in enumerate(UNIFORMS)]
    return [state, *uniforms, "shared uint local_state[2];", (HERE / "barrier.glsl").read_text()]


_TEST = """\
void main() {
  int group = int(gl_WorkGroupID.x);
  begin_barriers();
  for (int turn = 1; turn <= rows && local_state[0] == 0u; turn++) {
    if (LOCAL == 0) { cells[group] = turn; }
    device_barrier();
    if (cells[(group + 1) % groups] != turn) { atomicAdd(stale_reads[0], 1); }
    device_barrier();
  }
}
"""

_TABLE_COPY = """\
  for (int i = LOCAL; i < copy.length(); i += int(gl_WorkGroupSize.x)) { copy[i] = table[i]; }
"""
_LOOP = """\
void main() {
COPY  begin_barriers();
  for (int i = 0; i < rows && local_state[0] == 0u; i++) {
    ivec4 head = TABLE[i * QUARTER];
    if (head.w != 0) { device_barrier(); }
    int tiles = local_state[0] == 0u ? head.y : 0;
    int first = int(gl_WorkGroupID.x) - head.z;
    if (first < 0) { first += groups; }
    switch (head.x) {
CASES
      default: break;
    }
  }
}
"""


def _tile_function(number: int, kernel: KernelSource, elements: dict[str, str]) -> list[str]:
    """One kernel's macros, helpers and tile function, and the macros undefined again."""
    helpers, body = tile_text(kernel)
    macros = renamed(number, kernel)
    for argument in kernel.pictures:
        macros.append(f"#define {argument.name}_image {argument.memory}")
        macros += [f"#define {argument.name}_parameter{i} {argument.memory}_parameters[{i}]" for i in range(4)]
    macros += definitions(kernel, glsl_slice(elements))
    parameters = ", ".join(["int GROUP_ID", *(f"int {argument.name}_offset" for argument in kernel.buffers)])
    return [*macros, "#line 1 7", f"{helpers}void tile_{number}({parameters}) {body}", *undefined(macros)]


def _case(number: int, kernel: KernelSource, rows: str) -> str:
    offsets = [f"{rows}[i * QUARTER + {(HEAD + n) // 4}].{'xyzw'[n % 4]}" for n in range(len(kernel.buffers))]
    # The next tile's, or step's, first writes to local memory come after this one's last reads.
    after = " BARRIER;" if pool_names(kernel) else ""
    call = f"tile_{number}({', '.join(['tile', *offsets])});{after}"
    return f"      case {number}: for (int tile = first; tile < tiles; tile += groups) {{ {call} }} break;"
