"""Files that are kept between processes: used if it is right, made anew if it is not, and never trusted."""

from __future__ import annotations

import gc
import hashlib
import logging
import mmap
import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyopencl
import pytest

import framebind as fb
from framebind.delegate.cache import file as cache_file
from framebind.delegate.cache.cache import Cache
from framebind.delegate.cache.digest import PIECE, digest
from framebind.delegate.cache.file import MAGIC, UnusableError
from framebind.interop.cl import ptx
from framebind.interop.device import Device
from framebind.interop.discovery.devices import open_device
from framebind.interop.gl.khronos import GL
from framebind.interop.null.device import NullDevice
from framebind.interop.record.barrier import groups_to_try, keep_groups
from support.gl_calls import counted_calls
from support.tiny_models import CPU_ONLY, G, Op, T, build, cpu_only

SHAPE = (1, 4, 5, 8)
X = np.linspace(-1, 1, 160, dtype=np.float32).reshape(SHAPE)
SCALE = np.linspace(0.5, 2, 8, dtype=np.float32)
KEY = bytes(range(32))


def model(scale: npt.NDArray[np.float32] = SCALE) -> bytes:
    """Two partitions: logistic(x) * scale on the GPU, CPU_ONLY on the CPU, the sum of both * scale on the GPU."""
    tensors = [T("x", SHAPE), T("s", SHAPE), T("w", (8,), scale), *(T(name, SHAPE) for name in "mnay")]
    operators = [Op("LOGISTIC", [0], [1]), Op("MUL", [1, 2], [3]), Op(CPU_ONLY, [3], [4])]
    operators += [Op("ADD", [3, 4], [5]), Op("MUL", [5, 2], [6])]
    return build(G(tensors, operators, [0], [6]))


def expected(scale: npt.NDArray[np.float32] = SCALE) -> npt.NDArray[np.float32]:
    scaled = scale / (1 + np.exp(-X))
    return (scaled + cpu_only(scaled)) * scale


@dataclass(frozen=True)
class Counts:
    """The programs that a start compiled, and those whose constants it packed."""

    compiled: int
    packed: int


@dataclass(frozen=True)
class Starts:
    """Starts of models on one device, each as in a process of its own: no kernel is left of the start before."""

    backend: str
    compilations: Callable[[], int]
    """The number of programs that were compiled so far."""
    binaries: bool
    """The driver gives out binaries."""

    def __call__(
        self, folder: Path, content: bytes = model(), **options: Any
    ) -> tuple[Counts, npt.NDArray[np.float32]]:
        """The kernels that were made, and the result."""
        before = self.compilations()
        given = {"backend": self.backend, "serialization_dir": folder, "model_token": "tiny"} | options
        with closing(fb.GpuDelegate(fb.GpuDelegateOptions(**given))) as delegate:
            interpreter = fb.Interpreter(model_content=content)
            interpreter.modify_graph_with_delegate(delegate)
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, X)
            interpreter.invoke()
            result = interpreter.get_tensor(interpreter.outputs()[0])
            return Counts(self.compilations() - before, packed_programs(delegate)), result

    def check_cold(self, folder: Path, **options: Any) -> None:
        """A start makes everything, and is right."""
        counts, result = self(folder, **options)
        assert counts.compiled >= 2 and counts.packed == 2
        np.testing.assert_allclose(result, expected(), atol=2e-6)

    def check_warm(self, folder: Path, **options: Any) -> None:
        """A start makes nothing that is kept, and is right."""
        counts, result = self(folder, **options)
        assert counts.packed == 0 and (counts.compiled == 0) == self.binaries
        np.testing.assert_allclose(result, expected(), atol=2e-6)


def packed_programs(delegate: fb.GpuDelegate) -> int:
    return sum(program.compiled.packed for program in delegate.engine.programs)


@pytest.fixture
def on_gl(context: fb.GlContext) -> Iterator[Starts]:
    gc.collect()  # kernels of delegates that earlier tests left open would still be in the context's device
    formats = context.gl.integer(GL.NUM_PROGRAM_BINARY_FORMATS)
    with counted_calls(context) as calls:
        yield Starts("opengl", lambda: calls["glLinkProgram"], formats > 0)


@pytest.fixture
def on_cl(cl_context: fb.cl.ClContext, monkeypatch: pytest.MonkeyPatch) -> Iterator[Starts]:
    texts: list[str] = []
    make: Callable[..., None] = pyopencl.Program.__init__

    def counting(program: pyopencl.Program, context: pyopencl.Context, *rest: Any) -> None:
        if len(rest) == 1:  # a text; otherwise devices and their binaries
            texts.append(*rest)
        make(program, context, *rest)

    monkeypatch.setattr(pyopencl.Program, "__init__", counting)
    yield Starts("opencl", lambda: len(texts), True)


def file_in(folder: Path) -> Path:
    (file,) = folder.iterdir()  # no temporary file is left
    return file


def sections_of(file: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    rewritten(file, lambda name, data: found.setdefault(name, data))
    return found


def rewritten(file: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Change the sections of a file and give it the digest that they have then, as somebody could who is the user."""
    folder = cache_file.open_folder(file.parent)
    key = file.read_bytes()[len(MAGIC) + 32 :][:32]
    sections = {name: bytes(data) for name, data in cache_file.read(folder, file.name, key).items()}
    cache_file.write(folder, file.name, key, {name: change(name, data) for name, data in sections.items()})
    os.close(folder)


# Used if it is right -------------------------------------------------------------------------------------------------


def test_on_gl_the_second_start_compiles_and_packs_nothing(on_gl: Starts, tmp_path: Path) -> None:
    on_gl.check_cold(tmp_path / "new" / "cache")
    on_gl.check_warm(tmp_path / "new" / "cache")


def test_on_opencl_the_second_start_compiles_and_packs_nothing(on_cl: Starts, tmp_path: Path) -> None:
    on_cl.check_cold(tmp_path / "cache")
    on_cl.check_warm(tmp_path / "cache")


@contextmanager
def one_dispatch(backend: Literal["opencl", "opengl"]) -> Iterator[None]:
    """Programs of the current context run as one dispatch; no kernel is left of the block before."""
    device = open_device(backend)
    device.dispatches = "one"
    try:
        yield
    finally:
        device.dispatches = "auto"  # others may have it open too
        device.close()


def test_of_one_dispatch_the_program_alone_is_compiled_and_kept(on_cl: Starts, tmp_path: Path) -> None:
    """One program for each of the two partitions, and the barrier's test; the steps' own kernels are not compiled."""
    with one_dispatch("opencl"):
        cold, result = on_cl(tmp_path)
        np.testing.assert_allclose(result, expected(), atol=2e-6)
        assert cold.compiled == 3
    assert sum(name.startswith("program ") for name in sections_of(file_in(tmp_path))) == 3
    with one_dispatch("opencl"):
        on_cl.check_warm(tmp_path)


def test_of_one_dispatch_on_gl_the_program_alone_is_compiled_and_kept(on_gl: Starts, tmp_path: Path) -> None:
    """The kernels of single steps are not compiled, as on OpenCL."""
    with one_dispatch("opengl"):
        cold, result = on_gl(tmp_path)
        np.testing.assert_allclose(result, expected(), atol=2e-6)
    assert cold.compiled == 3
    kept = sum(name.startswith("program ") for name in sections_of(file_in(tmp_path)))
    assert kept == (3 if on_gl.binaries else 0)
    with one_dispatch("opengl"):
        on_gl.check_warm(tmp_path)


def test_what_is_kept_of_programs_loads_without_a_compiler(on_cl: Starts, tmp_path: Path) -> None:
    """NVIDIA's OpenCL gives out PTX, which it would compile at each start: machine code is kept in its place."""
    on_cl(tmp_path)
    sections = {name: data for name, data in sections_of(file_in(tmp_path)).items() if name.startswith("program ")}
    kept = [data for data in sections.values() if not data.startswith(b"module ")]  # the place of a kernel in a text
    assert kept and not any(ptx.is_ptx(data) for data in kept)
    if "NVIDIA" in fb.cl.ClContext.current().device.platform.name:
        assert {data[:4] for data in kept} == {b"\x7fELF"}
    on_cl.check_warm(tmp_path)


def test_groups_found_before_are_tried_first_and_strange_ones_never(tmp_path: Path) -> None:
    options = fb.GpuDelegateOptions(serialization_dir=tmp_path, model_token="tiny")

    def start() -> list[int]:
        """The order in which numbers of groups are tried; 20 are found to wait for one another."""
        cache = Cache(options, b"model", NullDevice().traits)
        tried = groups_to_try(10, (4, 3, 2, 1), 35, "text", cache)
        keep_groups(20, 35, "text", cache)
        cache.save()
        return tried

    assert start() == [35, 30, 20, 10]
    assert start() == [20, 35, 30, 10]
    assert groups_to_try(10, (4, 3, 2, 1), 35, "text", None) == [35, 30, 20, 10], "nothing is kept without a store"
    for strange in (b"", b"\xff" * 8, b"twenty", bytes(9)):
        rewritten(file_in(tmp_path), lambda name, data, new=strange: new)
        assert start() == [35, 30, 20, 10]
    written = file_in(tmp_path).stat().st_ino
    start()
    assert file_in(tmp_path).stat().st_ino == written, "what is known is not written again"


def test_folder_and_file_are_private(on_cl: Starts, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        on_cl(tmp_path / "cache")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    assert stat.S_IMODE(file_in(tmp_path / "cache").stat().st_mode) == 0o600


def test_a_kernel_that_the_device_has_already_is_kept_too(on_cl: Starts, tmp_path: Path) -> None:
    """The kernel was compiled by another model of the process; the next process has only this one."""
    delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opencl"))
    interpreter = fb.Interpreter(model_content=model())
    interpreter.modify_graph_with_delegate(delegate)
    interpreter.allocate_tensors()
    interpreter.invoke()
    counts, _ = on_cl(tmp_path)
    assert counts.compiled == 0
    delegate.close()
    on_cl.check_warm(tmp_path)


def test_other_shapes_add_to_the_file(on_cl: Starts, tmp_path: Path) -> None:
    on_cl(tmp_path)
    for packed in (2, 0):
        options = fb.GpuDelegateOptions(backend="opencl", serialization_dir=tmp_path, model_token="tiny")
        delegate = fb.GpuDelegate(options)
        interpreter = fb.Interpreter(model_content=model())
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.resize_tensor_input(0, (2, *SHAPE[1:]))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.concatenate([X, X]))
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.outputs()[0])
        np.testing.assert_allclose(result, np.concatenate([expected()] * 2), atol=2e-6)
        assert packed_programs(delegate) == packed
        delegate.close()
    on_cl.check_warm(tmp_path)


# Never used for anything else ----------------------------------------------------------------------------------------


def test_another_model_of_the_same_token_is_not_confused(on_cl: Starts, tmp_path: Path) -> None:
    on_cl.check_cold(tmp_path)
    other = SCALE[::-1].copy()
    counts, result = on_cl(tmp_path, model(other))
    assert counts.packed == 2
    np.testing.assert_allclose(result, expected(other), atol=2e-6)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("options", [{"is_precision_loss_allowed": True}, {"model_token": "other"}], ids=str)
def test_other_options_are_another_file(on_cl: Starts, tmp_path: Path, options: dict[str, Any]) -> None:
    on_cl(tmp_path)
    counts, _ = on_cl(tmp_path, **options)
    assert counts.packed == 2 and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "trait", [{"name": "other"}, {"driver": "newer"}, {"api": "opengl"}, {"group_size": 32}], ids=str
)
def test_another_device_or_driver_is_another_file(tmp_path: Path, trait: dict[str, Any]) -> None:
    options = fb.GpuDelegateOptions(serialization_dir=tmp_path, model_token="tiny")
    device: Device = NullDevice()

    def fits(places: Any, nbytes: int) -> bool:
        return places == {} and nbytes == 4

    first = Cache(options, b"model", device.traits)
    first.constants("all", fits, lambda: (np.zeros(4, np.uint8), {}))
    first.save()

    def fail() -> Any:
        raise AssertionError("it was not kept")

    Cache(options, b"model", device.traits).constants("all", fits, fail)
    with pytest.raises(AssertionError, match="it was not kept"):
        Cache(options, b"model", replace(device.traits, **trait)).constants("all", fits, fail)


def test_a_file_of_another_key_is_not_used(on_cl: Starts, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Renamed by hand: the name says one thing, the file another."""
    on_cl(tmp_path)
    file = file_in(tmp_path)
    kept = file.read_bytes()
    on_cl(tmp_path, is_precision_loss_allowed=True)
    (other,) = set(tmp_path.iterdir()) - {file}
    other.write_bytes(kept)
    counts, _ = on_cl(tmp_path, is_precision_loss_allowed=True)
    assert counts.packed == 2 and "made for something else" in caplog.text


# Damaged, foreign and malicious files --------------------------------------------------------------------------------


def flipped(place: float) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(place * (len(content) - 1))] ^= 0x10
        file.write_bytes(content)

    return change


def cut(length: int) -> Callable[[Path], None]:
    return lambda file: file.write_bytes(file.read_bytes()[:length])


def counted_sections(count: int) -> Callable[[Path], None]:
    """A count of sections that is not theirs, under a digest that fits."""

    def change(file: Path) -> None:
        content = file.read_bytes()
        body = content[40:72] + count.to_bytes(4, "little") + content[76:]
        file.write_bytes(MAGIC + hashlib.sha256(body).digest() + body)

    return change


def linked(file: Path) -> None:
    target = file.parent.parent / "target"
    file.replace(target)
    file.symlink_to(target)


def replaced_by_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "empty": cut(0), "magic": cut(8), "header": cut(75), "half": cut(2000),
    "longer": lambda f: f.write_bytes(f.read_bytes() + b"x"),
    "foreign": lambda f: f.write_bytes(b"PK\3\4" * 1000),
    "count": counted_sections(2**32 - 1), "fewer": counted_sections(1),
    "symlink": linked, "group may write": lambda f: f.chmod(0o620), "all may write": lambda f: f.chmod(0o602),
} | {f"bit at {place}": flipped(place) for place in (0.0, 0.003, 0.01, 0.3, 0.6, 0.9, 1.0)}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_made_anew(
    on_cl: Starts, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    on_cl(folder)
    DAMAGE[damage](file_in(folder))
    on_cl.check_cold(folder)
    assert f"{file_in(folder)} is not used and made anew" in caplog.text
    assert stat.S_IMODE(file_in(folder).stat().st_mode) == 0o600 and not file_in(folder).is_symlink()
    on_cl.check_warm(folder)


def test_a_folder_in_place_of_the_file_is_left_alone(
    on_cl: Starts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_cl(tmp_path)
    replaced_by_folder(file_in(tmp_path))
    on_cl.check_cold(tmp_path)
    assert "it is no plain file" in caplog.text and "cannot be written" in caplog.text


def test_a_pipe_in_place_of_the_file_does_not_block(on_cl: Starts, tmp_path: Path) -> None:
    on_cl(tmp_path)
    file = file_in(tmp_path)
    file.unlink()
    os.mkfifo(file, 0o600)
    on_cl.check_cold(tmp_path)


def test_somebody_elses_file_is_not_read(
    on_cl: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_cl(tmp_path)
    file, user = file_in(tmp_path).name, os.geteuid()
    folder = cache_file.open_folder(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    monkeypatch.setattr(hashlib, "sha256", None)  # nothing may be looked at
    with pytest.raises(UnusableError, match=f"others may write it: user {user}"):
        cache_file.read(folder, file, KEY)
    os.close(folder)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(on_cl: Starts, tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(fb.DelegateError, match=f"with mode {mode:o}, so that others may write there: .* 'chmod 700'"):
        on_cl(folder)
    assert not list(folder.iterdir())
    folder.chmod(0o700)
    on_cl.check_cold(folder)


def test_somebody_elses_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(fb.DelegateError, match=f"is user {user}'s"):
        cache_file.open_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(fb.DelegateError, match="file/cache' cannot be used: Not a directory"):
        cache_file.open_folder(tmp_path / "file" / "cache")


@pytest.mark.parametrize("nonsense", [b"", b"\0" * 64, b"not a program" * 100, b"\xff" * 5000], ids=len)
@pytest.mark.parametrize("cl_context", ["cl:pocl"], indirect=True)
def test_a_driver_that_refuses_a_binary_gets_the_text(on_cl: Starts, nonsense: bytes, tmp_path: Path) -> None:
    """A file as only the user can have written it: its digest fits, and the programs are none.

    Mesa's rusticl (22.3) aborts the process there: that is why owners, modes and digests are checked.
    """
    on_cl(tmp_path)
    rewritten(file_in(tmp_path), lambda name, data: nonsense if name.startswith("program") else data)
    counts, result = on_cl(tmp_path)
    assert counts.compiled >= 2 and counts.packed == 0
    np.testing.assert_allclose(result, expected(), atol=2e-6)
    on_cl.check_warm(tmp_path)


@pytest.mark.parametrize("nonsense", [b"", b"\1\0\0\0", b"\xff" * 500], ids=len)
def test_gl_that_refuses_a_binary_gets_the_text(on_gl: Starts, nonsense: bytes, tmp_path: Path) -> None:
    on_gl(tmp_path)
    rewritten(file_in(tmp_path), lambda name, data: nonsense if name.startswith("program") else data)
    counts, result = on_gl(tmp_path)
    assert counts.compiled >= 2 and counts.packed == 0
    np.testing.assert_allclose(result, expected(), atol=2e-6)
    on_gl.check_warm(tmp_path)


def constants(index: bytes) -> bytes:
    return len(index).to_bytes(8, "little") + index + bytes(64)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"", b"\xff" * 16, constants(b""), constants(b"{"), constants(b"7"), constants(b'[[0, 0, 65, "f32"]]'),
        constants(b'[[0, -4, 8, "f32"]]'), constants(b'[[0, 0, 8, "f64"]]'), constants(b'[[[0], 0, 8, "f32"]]'),
        constants(b"[[0]]"), constants(b"[]"), constants(b'[[2, 0, 16, "f32"]]'),
        constants(b'[[Infinity, 0, 16, "f32"]]'), constants(b"[" * 5000),
    ],
    ids=lambda data: repr(data[8:30]),
)  # fmt: skip
def test_constants_that_do_not_fit_are_packed_anew(
    on_cl: Starts, nonsense: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    on_cl(tmp_path)
    rewritten(file_in(tmp_path), lambda name, data: nonsense if name.startswith("constants") else data)
    counts, result = on_cl(tmp_path)
    assert counts.packed == 2 and counts.compiled == 0 and "are not used and made anew" in caplog.text
    np.testing.assert_allclose(result, expected(), atol=2e-6)
    on_cl.check_warm(tmp_path)


def test_a_file_that_cannot_be_written_is_a_warning(
    on_cl: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        on_cl.check_cold(tmp_path)
    assert "cannot be written, so that the next start compiles again: [Errno 28] No space left on device" in caplog.text
    assert not list(tmp_path.iterdir())
    on_cl.check_cold(tmp_path)


def test_programs_of_another_context_are_not_kept(on_gl: Starts, tmp_path: Path) -> None:
    """A delegate that never ran keeps what it recorded when it is closed. Another context has other programs then."""

    def of(operator: str) -> bytes:
        return build(G([T("x", SHAPE), T("y", SHAPE)], [Op(operator, [0], [1])], [0], [1]))

    def recorded(operator: str) -> fb.GpuDelegate:
        options = fb.GpuDelegateOptions(backend="opengl", serialization_dir=tmp_path, model_token=operator)
        delegate, interpreter = fb.GpuDelegate(options), fb.Interpreter(model_content=of(operator))
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        delegate.record()
        return delegate

    gc.collect()
    mine = recorded("NEG")
    with fb.GlContext.headless(es=fb.GlContext.current().is_es):
        other = recorded("ABS")
        mine.close()
        other.close()
    _, result = on_gl(tmp_path, of("NEG"), model_token="NEG")
    np.testing.assert_array_equal(result, -X)


def test_a_folder_that_is_taken_away_is_a_warning(
    on_cl: Starts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cache"
    cache = Cache(fb.GpuDelegateOptions(serialization_dir=folder, model_token="tiny"), b"", NullDevice().traits)
    cache.keep_number("groups", 4)
    folder.rmdir()
    folder.write_text("a file")
    cache.save()
    assert "cannot be written, so that the next start compiles again" in caplog.text


# The format ----------------------------------------------------------------------------------------------------------


def test_sections_come_back(tmp_path: Path) -> None:
    folder = cache_file.open_folder(tmp_path)
    sections = {"a": b"", "é" * 100: b"x" * 70000, "program": bytes(range(256))}
    cache_file.write(folder, "file", KEY, sections)
    assert {name: bytes(data) for name, data in cache_file.read(folder, "file", KEY).items()} == sections
    for length in range(0, 500):
        (tmp_path / "cut").write_bytes((tmp_path / "file").read_bytes()[:length])
        (tmp_path / "cut").chmod(0o600)
        with pytest.raises(UnusableError):
            cache_file.read(folder, "cut", KEY)
    os.close(folder)


def test_what_is_too_large_to_be_read_is_not_written(tmp_path: Path) -> None:
    folder = cache_file.open_folder(tmp_path)
    with mmap.mmap(-1, cache_file.MAX_FILE_BYTES) as zeros, memoryview(zeros) as data:
        with pytest.raises(OSError, match=r"it has 1073741\d+ bytes, and at most 1073741824 are read"):
            cache_file.write(folder, "file", KEY, {"a": data})
    assert not list(tmp_path.iterdir())
    os.close(folder)


@pytest.mark.parametrize("size", [0, 7, 3000, 70_000])
def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path, size: int) -> None:
    """A limit of the file's size stands for a disk with so much room. Python ignores the signal that goes with it."""
    folder, before = cache_file.open_folder(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    cache_file.write(folder, "file", KEY, {"a": b"old"})
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            cache_file.write(folder, "file", KEY, {"a": b"new" * 50_000, "b": b"new" * 50_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {name: bytes(data) for name, data in cache_file.read(folder, "file", KEY).items()} == {"a": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    os.close(folder)


@pytest.mark.parametrize("moment", ["write", "fsync", "replace", "after"])
def test_a_process_that_is_killed_while_it_keeps_leaves_a_complete_file(tmp_path: Path, moment: str) -> None:
    folder, old, new = cache_file.open_folder(tmp_path), {"a": b"old"}, {"a": b"new" * 50_000, "b": b"new"}
    cache_file.write(folder, "file", KEY, old)
    child = os.fork()
    if not child:
        try:
            write_until(moment, folder, new)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    found = {name: bytes(data) for name, data in cache_file.read(folder, "file", KEY).items()}
    assert found == (new if moment == "after" else old)
    left = [path for path in tmp_path.iterdir() if path.name != "file"]
    assert len(left) == (moment != "after"), "what was half written has another name"
    cache_file.write(folder, "file", KEY, new)
    assert [path for path in left if not path.exists()] == [], "another process may still write it"
    for path in left:
        os.utime(path, (0, 0))
    cache_file.write(folder, "file", KEY, new)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    os.close(folder)


def write_until(moment: str, folder: int, sections: dict[str, bytes]) -> None:
    """Write the file, and be killed while bytes are written, before they are on the disk, or before the renaming."""

    class Interrupted(dict[str, bytes]):
        passes = 0

        def items(self) -> Any:
            Interrupted.passes += 1
            yield from list(super().items())[:1]
            if moment == "write" and Interrupted.passes == 2:  # the first pass is the digest's
                kill()
            yield from list(super().items())[1:]

    def kill(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if moment in ("fsync", "replace"):
        setattr(os, moment, kill)
    cache_file.write(folder, "file", KEY, Interrupted(sections))
    kill()


def test_a_missing_file_is_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        Cache(fb.GpuDelegateOptions(serialization_dir=tmp_path, model_token="t"), b"", NullDevice().traits)
    assert not caplog.records


def test_large_parts_have_the_digest_of_their_pieces() -> None:
    """Threads compute it, in order; and each byte counts."""
    data = bytearray(range(251)) * (2 * PIECE // 251 + 1)
    pieces = [bytes(data[i : i + PIECE]) for i in range(0, len(data), PIECE)]
    whole = hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).digest()
    assert len(pieces) == 3 and digest([bytes(data)]) == digest(pieces) == whole
    data[-1] ^= 1
    assert digest([bytes(data)]) != whole
    assert digest([b"ab", b""]) != digest([b"ab"]) != digest([b"a", b"b"])


def test_a_fingerprint_is_the_sha256_of_the_model(tmp_path: Path) -> None:
    content = model()
    (tmp_path / "tiny.tflite").write_bytes(content)
    assert fb.fingerprint(content) == fb.fingerprint(tmp_path / "tiny.tflite") == hashlib.sha256(content).hexdigest()
    fb.GpuDelegateOptions(serialization_dir=tmp_path, model_token=fb.fingerprint(content))
    with pytest.raises(fb.ModelError, match=r"nothing\.tflite cannot be read: No such file"):
        fb.fingerprint(tmp_path / "nothing.tflite")
