"""CUDA C++: a kernel function per kernel, compiled by NVRTC for compute capability 7.0 and newer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..views import Picture, Plane, Quantized, Strided
from .c_family import CFamily, dynamic_bytes, line_of_body, switch_cases
from .one_dispatch import ProgramSource
from .source import Argument, Buffer, KernelSource, TileText, storage_of
from .texts import awaits_inputs, barrier

INVOCATIONS_PER_UNIT = 512
"""The least number of invocations of a program that a compute unit keeps resident. It limits their registers to 128, as
NVIDIA's OpenCL compiler does.
"""
RESIDENT = {"inverted": 2}
"""The groups of a kernel, launched by itself, that a compute unit must have registers for."""
RESIDENT_OF_HALVES = RESIDENT | {"tiled_conv": 2, "warpgroup_conv": 2}
"""RESIDENT for a kernel that reads halves."""
_WRAPPING = (("ADD", "+"), ("SUB", "-"), ("MUL", "*"))
_INTEGERS = {
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "bool": "unsigned char", "int32": "int",
    "int64": "long long",
}  # fmt: skip
_WHOLE = {"i32": "int", "u8": "unsigned char", "u16": "unsigned short"}
"""The types of tensors of whole numbers, by storage."""


class Cuda(CFamily):
    """CUDA C++. Implements Dialect (dialect.py), which says what each method returns.

    A kernel has the name ``source.name`` and the parameters, in order: a pointer per memory; per texture an
    ``Image<FORMAT>`` of prelude.cuda (a pointer and the bytes from a row to the next, 64 bits each); an int offset per
    buffer argument; the float4 of each picture. It is launched in group_count blocks of group_size threads.

    A program's kernel has the name "program" and the parameters: a pointer per memory, an image per texture, the
    float4 of each picture, the table, its number of rows, the barrier's count of arrivals (a word that is never reset)
    and the number of groups. It needs a cooperative launch, unless there is one group, which needs no count either.
    """

    name = extension = "cuda"
    words = "uint2", "make_uint2(0u, 0u)", "uint2*"
    inline = "__forceinline__ "
    barrier = (("uint*", "barrier_arrivals"), ("uint*", "barrier_seen"))

    def image(self, argument: Argument, name: str) -> str:
        """The parameter of a texture."""
        assert isinstance(argument.view, Picture | Plane)
        return f"Image<{argument.view.format}> {name}"

    def load(self, argument: Argument, buffer: Buffer, index: str) -> str:
        if isinstance(argument.view, Quantized) and argument.view.dtype != "float16":
            return f"load_floats<{_INTEGERS[argument.view.dtype]}>({buffer.name}, {index})"
        if isinstance(argument.view, Strided):
            return f"LOAD_HALF({buffer.name}, {index})" if argument.unit == 2 else f"{buffer.name}[{index}]"
        if _is_half(argument):
            return f"LOAD_HALF4({buffer.name}, {index})"
        if storage_of(argument) in _WHOLE:
            return f"load_floats<{_stored_type(argument)}>({buffer.name}, {index})"
        return f"({_cast(buffer, 'float4')})[{index}]"

    @property
    def integer_words(self) -> Sequence[str]:
        """Macros of arithmetic that wraps around; the others are in prelude.cuda. NUMBERS is float: in such a kernel
        the word float itself becomes int.
        """
        return ("#define NUMBERS float", *(f"#define WRAP_{n}(v, w) ((v) {o} (w))" for n, o in _WRAPPING))

    def load_integers(self, argument: Argument, buffer: Buffer, index: str) -> str:
        if isinstance(argument.view, Strided):
            return f"(int)({self.load(argument, buffer, index)})"
        if _is_half(argument):
            return f"ints_of({self.load(argument, buffer, index)})"
        return f"load_ints<{_stored_type(argument)}>({buffer.name}, {index})"

    def store_integers(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        if isinstance(argument.view, Strided):
            return self.store(argument, buffer, index, value)
        if _is_half(argument):
            return self.store(argument, buffer, index, f"floats_of({value})")
        return f"store_four<{_stored_type(argument)}>({buffer.name}, {index}, {value})"

    def store(self, argument: Argument, buffer: Buffer, index: str, value: str) -> str:
        if isinstance(argument.view, Strided):
            place = f"{buffer.name}, {index}, {value}"
            return f"STORE_HALF({place})" if argument.unit == 2 else f"{buffer.name}[{index}] = {value}"
        if _is_half(argument):
            return f"STORE_HALF4({buffer.name}, {index}, {value})"
        if isinstance(argument.view, Quantized) or storage_of(argument) in _WHOLE:
            return f"store_four<{_stored_type(argument)}>({buffer.name}, {index}, {value})"
        return f"({_cast(buffer, 'float4')})[{index}] = {value}"

    def load_words(self, argument: Argument, buffer: Buffer, index: str) -> str:
        return f"({_cast(buffer, 'uint2')})[{index}]"

    def load_sample(self, argument: Argument, buffer: Buffer, index: str) -> str:
        kind, largest = ("unsigned char", 255) if argument.unit == 1 else ("unsigned short", 65535)
        return f"({_cast(buffer, kind)})[{index}] / {largest}.0f"

    def entry(self, source: KernelSource, elements: Mapping[str, str], tile: TileText) -> list[str]:
        lines = [f'#line 1 "{source.name}.kern"', tile.helpers]
        halves = any(argument.name == "src" and _is_half(argument) for argument in source.arguments)
        resident = RESIDENT_OF_HALVES if halves else RESIDENT
        bounds = f"{source.group_size}, {resident.get(source.name, 1)}"
        lines.append(_entry(source.name, bounds, self.kernel_parameters(source, elements)))
        lines += _local_arrays(source)
        lines += [] if awaits_inputs(source) else ["  AWAIT_INPUTS;"]
        return [*lines, "  int GROUP_ID = (int)blockIdx.x;", line_of_body(source, tile), tile.body, "}\n"]

    def program(self, source: ProgramSource, elements: Mapping[str, str], functions: Sequence[str]) -> str:
        """The text of a program. LOCAL is read for each step anew: reload_local_id in prelude.cuda."""
        lines = [barrier("cuda"), "void await_inputs() { AWAIT_INPUTS; }"]
        lines += ["#undef LOCAL", "#define LOCAL invocation"]
        lines += [*self.awaiting(), "#undef ALLOW_NEXT", "#define ALLOW_NEXT", *functions]
        parameters = self.program_parameters(
            source, ("const int* table", "int rows", "uint* barrier_arrivals", "int groups")
        )
        resident = max(1, INVOCATIONS_PER_UNIT // source.group_size)
        lines.append(_entry("program", f"{source.group_size}, {resident}", parameters))
        lines += [f"  __shared__ {kind} {name}[{count}];" for name, (kind, count) in source.pools.items()]
        if source.copies_table:
            lines.append(_TABLE_COPY.replace("COUNT", str(source.steps * source.row)))
        lines.append("  await_inputs();")
        loop = _LOOP.replace("TABLE", "copy" if source.copies_table else "table")
        lines.append(loop.replace("ROW", str(source.row)).replace("CASES", switch_cases(self.barrier, source.kernels)))
        return self.with_prelude(lines)


CUDA = Cuda()


# Declarations ---------------------------------------------------------------------------------------------------------


def _is_half(argument: Argument) -> bool:
    if isinstance(argument.view, Quantized):
        return argument.view.dtype == "float16"
    return storage_of(argument) == "f16"


def _stored_type(argument: Argument) -> str:
    """The type of the numbers in memory, which are no halves."""
    if isinstance(argument.view, Quantized):
        return _INTEGERS[argument.view.dtype]
    return _WHOLE.get(storage_of(argument) or "f32", "NUMBERS")


def _cast(buffer: Buffer, kind: str) -> str:
    return f"({'const ' if buffer.read_only else ''}{kind}*){buffer.name}"


def _local_arrays(source: KernelSource) -> list[str]:
    """The declarations of a kernel's local arrays."""
    if not dynamic_bytes(source):
        return [f"  __shared__ {kind} {name}[{count}];" for kind, name, count in source.shared]
    lines, place = ["  extern __shared__ float4 local_arrays[];"], 0
    for kind, name, count in source.shared:
        assert kind == "float4"  # whatever follows is aligned
        lines.append(f"  float4* {name} = local_arrays + {place};")
        place += count
    return lines


def _entry(name: str, bounds: str, parameters: str) -> str:
    return f'extern "C" __global__ void __launch_bounds__({bounds}) {name}({parameters}) {{'


# Entry points ---------------------------------------------------------------------------------------------------------

_TABLE_COPY = """\
  __shared__ int copy[COUNT];
  for (int i = (int)threadIdx.x; i < COUNT; i += (int)blockDim.x) { copy[i] = table[i]; }"""
_LOOP = """\
  __shared__ uint last;
  uint* barrier_seen = &last;
  int invocation = (int)threadIdx.x;
  begin_barriers(barrier_arrivals, barrier_seen);
  for (int i = 0; i < rows; i++) {
    const int* row = TABLE + i * ROW;
    invocation = reload_local_id();
    if (row[3] != 0) { arrive_at_barrier(barrier_arrivals, groups); }
    int tiles = row[1];
    int first = (int)blockIdx.x - row[2];
    if (first < 0) { first += groups; }
    switch (row[0]) {
CASES
      default: break;
    }
    if (row[3] != 0 && first >= tiles) { wait_at_barrier(barrier_arrivals, barrier_seen); }
  }
}
"""
