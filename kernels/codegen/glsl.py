"""GLSL 4.3 and GLSL ES 3.1: a compute shader per kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..tensor import INTEGER_DTYPES, STORED_BYTES
from ..views import Dense, Picture, Plane, Quantized, Strided
from .one_dispatch import HEAD, ProgramSource, pool_names
from .source import Argument, Buffer, KernelSource, TileText, holds_integers, storage_of
from .texts import awaits_inputs, barrier, prelude

UNIFORMS = ("rows", "groups", "max_spins")
"""Ints that a program of all steps is given for each run, at the locations 0, 1, 2."""


@dataclass(frozen=True)
class Glsl:
    """GLSL. ``version`` is "430 core" or "310 es". Implements Dialect (dialect.py), which says what each method
    returns.

    A kernel's bindings: buffer i is the i-th of ``source.memories``; texture or image unit i is the i-th of
    ``source.textures``. Its uniform locations: an array of ints at 0, the offset of buffer argument i at i; then the
    vec4 of each of ``source.pictures``.

    A program's bindings: buffer i is the i-th of ``source.memories``, and the one behind them the barrier's state (two
    words); uniform buffer 0 is the table; texture or image unit i is the i-th of ``source.textures``. Its uniform
    locations: UNIFORMS, then the vec4 of each of ``source.pictures``.

    The test of the barrier has the bindings: an int per group, a count of stale reads, the barrier's state. Its
    uniforms are UNIFORMS, with the number of rounds as ``rows``.
    """

    version: str
    name = "glsl"
    words = None

    def element(self, arguments: Sequence[Argument]) -> str:
        """GLSL type of a buffer's elements, from the storage of the arguments that share it: vec4 if all are f32; uvec2
        (pairs of words) if one has halves or bytes; uvec4 if one has int32; uint for a model's integers, planes of
        pictures and Strided halves; float for Dense and Strided floats.
        """
        if any(isinstance(a.view, Dense | Strided) for a in arguments):
            units = {a.unit if isinstance(a.view, Dense | Strided) else 0 for a in arguments}
            if len(units) > 1:
                raise ValueError(f"memory '{arguments[0].memory}' mixes a user's layout with slices")
            return "float" if units == {4} else "uint"
        if any(isinstance(a.view, Quantized | Plane) for a in arguments):
            return "uint"
        if any(storage_of(a) in ("f16", "u8", "u16") for a in arguments):
            return "uvec2"
        return "uvec4" if any(holds_integers(a) for a in arguments) else "vec4"

    def load(self, argument: Argument, buffer: Buffer, index: str) -> str:
        memory = buffer.name
        if isinstance(argument.view, Quantized):
            return _load_integers(memory, argument.view.dtype, index)
        if isinstance(argument.view, Strided):
            return f"LOAD_HALF({memory}, {index})" if argument.unit == 2 else f"{memory}[{index}]"
        if storage_of(argument) == "f16":
            return f"UNPACK_HALF4({memory}[{index}])"
        if storage_of(argument) == "u8":
            return f"UNPACK_BYTES({_half_element(memory, index)})"
        if storage_of(argument) == "u16":
            return f"UNPACK_SHORTS({memory}[{index}].x, {memory}[{index}].y)"
        if buffer.element == "vec4":
            return f"{memory}[{index}]"
        words = _four_words(buffer, index)
        return f"vec4(ivec4({words}))" if holds_integers(argument) else f"uintBitsToFloat({words})"

    def load_integers(self, argument: Argument, buffer: Buffer, index: str) -> str:
        if isinstance(argument.view, Quantized):
            return _load_stored(buffer.name, argument.view.dtype, index)
        if holds_integers(argument):
            return f"ivec4({_four_words(buffer, index)})"
        if isinstance(argument.view, Strided):
            return f"int({self.load(argument, buffer, index)})"
        return f"ivec4({self.load(argument, buffer, index)})"

    def store(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        memory = buffer.name
        if isinstance(argument.view, Quantized):
            return _store_integers(memory, argument.view.dtype, index, value)
        if isinstance(argument.view, Strided):
            if argument.unit == 2:
                return f"STORE_HALF({memory}, {index}, {value})"
            return f"{memory}[{index}] = {value}"
        if storage_of(argument) == "f16":
            return f"{memory}[{index}] = PACK_HALF4({value})"
        if storage_of(argument) == "u8":
            return f"{_half_element(memory, index)} = PACK_BYTES({value})"
        if buffer.element == "vec4":
            return f"{memory}[{index}] = {value}"
        return _store_words(
            buffer, index, f"uvec4(ivec4({value}))" if holds_integers(argument) else f"floatBitsToUint({value})"
        )

    @property
    def integer_words(self) -> Sequence[str]:
        """Macros of int4. Sums and products wrap around by themselves."""
        return (
            "#define I4(x) ivec4(x)",
            "#define I4V(a, b, c, d) ivec4(a, b, c, d)",
            "#define IS_LESS(v, w) ivec4(lessThan(v, w))",
            "#define IS_EQUAL(v, w) ivec4(equal(v, w))",
            "#define WRAP_ADD(v, w) ((v) + (w))",
            "#define WRAP_SUB(v, w) ((v) - (w))",
            "#define WRAP_MUL(v, w) ((v) * (w))",
        )

    def store_integers(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        if isinstance(argument.view, Quantized):
            return _store_stored(buffer.name, argument.view.dtype, index, value)
        if holds_integers(argument):
            return _store_words(buffer, index, f"uvec4({value})")
        if isinstance(argument.view, Strided):
            return f"vec2 store_number = vec2({value}); {self.store(argument, buffer, index, 'store_number.x')}"
        return f"vec4 store_floats = vec4({value}); {self.store(argument, buffer, index, 'store_floats')}"

    def load_words(self, argument: Argument, buffer: Buffer, index: str) -> str:
        raise NotImplementedError("GLSL has no matrix units")

    def load_sample(self, argument: Argument, buffer: Buffer, index: str) -> str:
        function, shift = ("byte_of", 2) if argument.unit == 1 else ("short_of", 1)
        return f"{function}({buffer.name}[({index}) >> {shift}], {index})"

    def kernel(self, source: KernelSource, elements: Mapping[str, str], macros: Sequence[str], tile: TileText) -> str:
        lines: list[str] = []
        for binding, (memory, arguments) in enumerate(source.memories.items()):
            readonly = "readonly " if all(a.access == "r" for a in arguments) else ""
            lines.append(_block(binding, readonly, elements[memory], memory))
        location = len(source.buffers)
        if location:  # one array, so that one call sets them all
            lines.append(f"layout(location = 0) uniform int offsets[{location}];")
        lines += [f"#define {argument.name}_offset offsets[{i}]" for i, argument in enumerate(source.buffers)]
        for argument in source.pictures:
            lines.append(_parameters(argument.name, location, argument.quads))
            lines += _parameter_macros(argument, argument.name)
            location += argument.quads
        for unit, argument in enumerate(source.textures):
            lines.append(_texture(argument, f"{argument.name}_image", unit))
        lines += [f"shared {kind} {name}[{count}];" for kind, name, count in source.shared]
        lines += [*macros, "#line 1 7", f"{tile.helpers}void tile_function(int GROUP_ID) {tile.body}", _MAIN]
        return self._text(source.group_size, lines)

    def picture_macros(self, kernel: KernelSource) -> list[str]:
        """Macros of the pictures, which are global here."""
        macros = [f"#define {argument.name}_image {argument.memory}" for argument in kernel.textures]
        for argument in kernel.pictures:
            macros += _parameter_macros(argument, argument.memory)
        return macros

    def tile_function(self, source: ProgramSource, number: int, tile: TileText) -> list[str]:
        offsets = [f"int {argument.name}_offset" for argument in source.kernels[number].buffers]
        parameters = ", ".join(["int GROUP_ID", "int waits", *offsets])
        first = "" if awaits_inputs(source.kernels[number]) else "AWAIT_INPUTS;"
        return ["#line 1 7", f"{tile.helpers}void tile_{number}({parameters}) {{ {first} {tile.body} }}"]

    def program(self, source: ProgramSource, elements: Mapping[str, str], functions: Sequence[str]) -> str:
        lines, quarters = list[str](), source.steps * source.row // 4
        for binding, (memory, arguments) in enumerate(source.memories.items()):
            qualifier = "readonly " if all(a.access == "r" for a in arguments) else "coherent "
            lines.append(_block(binding, qualifier, elements[memory], memory))
        lines.append(f"layout(std140, binding = 0) uniform block_table {{ ivec4 table[{quarters}]; }};")
        location = len(UNIFORMS)
        for argument in source.pictures:
            lines.append(_parameters(argument.memory, location, argument.quads))
            location += argument.quads
        for unit, argument in enumerate(source.textures):
            lines.append(_texture(argument, argument.memory, unit))
        lines += [f"shared {kind} {name}[{count}];" for name, (kind, count) in source.pools.items()]
        if source.copies_table:
            lines.append(f"shared ivec4 copy[{quarters}];")
        lines += [*_barrier(len(source.memories)), *_AWAITING, *functions]
        rows = "copy" if source.copies_table else "table"
        cases = [_case(number, kernel, rows) for number, kernel in enumerate(source.kernels)]
        loop = _LOOP.replace("TABLE", rows).replace("COPY", _TABLE_COPY if source.copies_table else "")
        lines.append(loop.replace("CASES", "\n".join(cases)).replace("QUARTER", str(source.row // 4)))
        return self._text(source.group_size, lines)

    def barrier_test(self, group_size: int) -> str:
        """The text of the kernel that tests the barrier before its first use."""
        blocks = [_block(i, "coherent ", "int", name) for i, name in enumerate(("cells", "stale_reads"))]
        return self._text(group_size, [*blocks, *_barrier(2), _TEST])

    def _text(self, group_size: int, lines: Sequence[str]) -> str:
        """The text of these lines, after the head of a shader and what they use of the prelude."""
        head, text = [f"#version {self.version}"], "\n".join(lines)
        if self.version.endswith("es"):
            head += [f"precision highp {kind};" for kind in ("float", "int", "sampler2D", "image2D")]
        return "\n".join([*head, f"layout(local_size_x = {group_size}) in;", prelude("glsl", text), text])


GLSL, GLSL_ES = Glsl("430 core"), Glsl("310 es")
"""The dialect of desktop OpenGL 4.3, and that of OpenGL ES 3.1, which differs in the first lines only."""


# Integers, which are floats in kernels. A buffer of uint holds four of them in as many words as one has bytes. --------


def _words(memory: str, dtype: str, index: str) -> list[str]:
    nbytes = STORED_BYTES[dtype]
    return [f"{memory}[({index}) * {nbytes} + {word}]" for word in range(nbytes)]


def _half_element(memory: str, index: str) -> str:
    """A slice of bytes: one of the two words of an element."""
    return f"{memory}[({index}) >> 1][({index}) & 1]"


def _four_words(buffer: Buffer, index: str) -> str:
    """A slice of four words. A block that also holds halves has elements of two words: the slice is two of them."""
    if buffer.element == "uvec4":
        return f"{buffer.name}[{index}]"
    return f"uvec4({buffer.name}[({index}) * 2], {buffer.name}[({index}) * 2 + 1])"


def _store_words(buffer: Buffer, index: str, words: str) -> str:
    if buffer.element == "uvec4":
        return f"{buffer.name}[{index}] = {words}"
    bits = f"uvec4 store_bits = {words}; int store_i = ({index}) * 2"
    return f"{bits}; {buffer.name}[store_i] = store_bits.xy; {buffer.name}[store_i + 1] = store_bits.zw"


def _load_stored(memory: str, dtype: str, index: str) -> str:
    """Four integers of a model as an ivec4; of 64 bits the low words."""
    kind, words = INTEGER_DTYPES[dtype], _words(memory, dtype, index)
    if kind.nbytes < 4:
        return f"ivec4({_load_integers(memory, dtype, index)})"
    return f"ivec4({', '.join(words[:: kind.nbytes // 4])})"


def _store_stored(memory: str, dtype: str, index: str, value: str) -> str:
    """Four integers of a model from an ivec4; of 64 bits the high words repeat the sign."""
    kind, words = INTEGER_DTYPES[dtype], _words(memory, dtype, index)
    if kind.nbytes < 4:
        return f"vec4 store_floats = vec4({value}); {_store_integers(memory, dtype, index, 'store_floats')}"
    shifts = ("", " >> 31")[: kind.nbytes // 4]
    values = [f"uint({value}.{lane}{shift})" for lane in "xyzw" for shift in shifts]
    return "; ".join(f"{word} = {stored}" for word, stored in zip(words, values, strict=True))


def _load_integers(memory: str, dtype: str, index: str) -> str:
    words = _words(memory, dtype, index)
    if dtype == "float16":
        return f"UNPACK_HALF4(uvec2({', '.join(words)}))"
    kind = INTEGER_DTYPES[dtype]
    if kind.nbytes > 2:
        return f"UNPACK_{'INTS' if kind.nbytes == 4 else 'LONGS'}({', '.join(words)})"
    packed = ", ".join(f"{'int' if kind.lowest else 'uint'}({word})" for word in words)
    return f"UNPACK_{'BYTES' if kind.nbytes == 1 else 'SHORTS'}({packed})"


def _store_integers(memory: str, dtype: str, index: str, value: str) -> str:
    words = _words(memory, dtype, index)
    if dtype == "float16":
        return f"{words[0]} = packHalf2x16({value}.xy); {words[1]} = packHalf2x16({value}.zw)"
    kind = INTEGER_DTYPES[dtype]
    if kind.nbytes == 1:
        return f"{words[0]} = PACK_BYTES({value})"
    if kind.nbytes == 2:
        return f"{words[0]} = PACK_SHORTS({value}.xy); {words[1]} = PACK_SHORTS({value}.zw)"
    if kind.nbytes == 4:
        return "; ".join(f"{word} = uint(int({value}.{lane}))" for word, lane in zip(words, "xyzw", strict=True))
    stores = [f"uvec2 long_{lane} = PACK_LONG({value}.{lane})" for lane in "xyzw"]
    stores += [f"{word} = long_{'xyzw'[i // 2]}.{'xy'[i % 2]}" for i, word in enumerate(words)]
    return "; ".join(stores)


# Declarations ---------------------------------------------------------------------------------------------------------


def _block(binding: int, qualifier: str, element: str, memory: str) -> str:
    return f"layout(std430, binding = {binding}) {qualifier}buffer block_{memory} {{ {element} {memory}[]; }};"


def _parameters(name: str, location: int, count: int) -> str:
    return f"layout(location = {location}) uniform vec4 {name}_parameters[{count}];"


def _parameter_macros(argument: Argument, name: str) -> list[str]:
    return [f"#define {argument.name}_parameter{i} {name}_parameters[{i}]" for i in range(argument.quads)]


def _texture(argument: Argument, name: str, unit: int) -> str:
    assert isinstance(argument.view, Picture | Plane)
    if argument.access == "r":
        return f"layout(binding = {unit}) uniform sampler2D {name};"
    return f"layout({argument.view.format}, binding = {unit}) writeonly uniform image2D {name};"


def _barrier(binding: int) -> list[str]:
    block = "buffer block_state { uint arrivals; uint timed_out; };"
    state = f"layout(std430, binding = {binding}) coherent volatile {block}"
    uniforms = [f"layout(location = {i}) uniform int {name};" for i, name in enumerate(UNIFORMS)]
    return [state, *uniforms, "shared uint local_state[2];", barrier("glsl")]


# Entry points ---------------------------------------------------------------------------------------------------------

_MAIN = """\
void main() {
  int tile = int(gl_WorkGroupID.x + gl_WorkGroupID.y * gl_NumWorkGroups.x);
  if (tile < GROUP_COUNT) { tile_function(tile); }
}
"""
_TEST = """\
void main() {
  int group = int(gl_WorkGroupID.x);
  begin_barriers();
  for (int turn = 1; turn <= rows && local_state[0] == 0u; turn++) {
    if (LOCAL == 0) { cells[group] = turn; }
    arrive_at_barrier();
    wait_at_barrier();
    if (cells[(group + 1) % groups] != turn) { atomicAdd(stale_reads[0], 1); }
    arrive_at_barrier();
    wait_at_barrier();
  }
}
"""
_AWAITING = (
    "#undef AWAIT_INPUTS", "#define AWAIT_INPUTS if (waits != 0) { wait_at_barrier(); waits = 0; }",
)  # fmt: skip
"""AWAIT_INPUTS in a program: a work-group's first tile of a step waits at the barrier before the step."""
_TABLE_COPY = """\
  for (int i = LOCAL; i < copy.length(); i += int(gl_WorkGroupSize.x)) { copy[i] = table[i]; }
"""
_LOOP = """\
void main() {
COPY  begin_barriers();
  for (int i = 0; i < rows && local_state[0] == 0u; i++) {
    ivec4 head = TABLE[i * QUARTER];
    if (head.w != 0) { arrive_at_barrier(); }
    int first = int(gl_WorkGroupID.x) - head.z;
    if (first < 0) { first += groups; }
    switch (head.x) {
CASES
      default: break;
    }
    if (head.w != 0 && first >= head.y) { wait_at_barrier(); }
  }
}
"""


def _case(number: int, kernel: KernelSource, rows: str) -> str:
    offsets = [f"{rows}[i * QUARTER + {(HEAD + n) // 4}].{'xyzw'[n % 4]}" for n in range(len(kernel.buffers))]
    # The next tile's, or step's, first writes to local memory come after this one's last reads.
    after = " BARRIER;" if pool_names(kernel) else ""
    call = f"tile_{number}({', '.join(['tile', 'tile == first ? head.w : 0', *offsets])});{after}"
    return f"      case {number}: for (int tile = first; tile < head.y; tile += groups) {{ {call} }} break;"
