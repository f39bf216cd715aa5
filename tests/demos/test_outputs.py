"""Outputs of demos and commands: files that are complete or not there, names that are only text, signals."""

from __future__ import annotations

import ast
import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import typer

import framebind as fb
from framebind.__main__ import main as command_line
from framebind.tools.common import console, output
from framebind.tools.player import run as runner
from framebind.tools.player.options import Options
from framebind.tools.player.player import file_name
from framebind.tools.player.trace import Trace
from framebind.video.signals import ended_by_signals, raise_if_signalled
from support import live_demo
from support.tiny_models import chain

ROOT = Path(console.__file__).parents[2]
FOLDERS = ("video", "tools", "demos")
HOSTILE = "[/red] :smile: [bold]\x1b]0;title\x07\x9b2J\r"
SHOWN = r"[/red] :smile: [bold]\x1b]0;title\x07\x9b2J\r"


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "identity.tflite"
    path.write_bytes(chain("ABS", shape=(1, 48, 64, 3)))
    return path


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    path = tmp_path / "clip.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 25.0, (64, 48))
    for number in range(4):
        writer.write(np.full((48, 64, 3), 40 * number, np.uint8))
    writer.release()
    return path


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """``full_disk(nbytes)``: from now on no file grows beyond so many bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores the signal that goes with it
    yield lambda nbytes: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def play(capsys: pytest.CaptureFixture[str], model: Path, **options: Any) -> tuple[int, str]:
    """Run a demo as a program: its exit code and what it prints."""
    code = 0
    try:
        runner.main(live_demo.prepare, Options(str(model), headless=True, **options))
    except typer.Exit as ended:
        code = ended.exit_code
    return code, capsys.readouterr().err


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_read_is_not_written(tmp_path: Path, identity: Path, clip: Path) -> None:
    content, link, folder = clip.read_bytes(), tmp_path / "link.mp4", tmp_path / "folder"
    link.symlink_to(clip)
    folder.mkdir()
    picture = folder / "a.png"
    cv2.imwrite(str(picture), np.zeros((48, 64, 3), np.uint8))
    mistakes: tuple[tuple[str, dict[str, Any]], ...] = (
        (str(clip), {"output": [clip]}), (str(clip), {"output": [link]}), (str(link), {"output": [clip]}),
        (os.path.relpath(clip), {"output": [clip]}), (str(clip), {"profile": clip}),
        (str(picture), {"output": [picture]}), (str(folder), {"output": [picture]}),
        (f"synthetic:{picture}", {"output": [picture]}), ("synthetic", {"profile": identity}),
    )  # fmt: skip
    for source, given in mistakes:
        with pytest.raises(typer.BadParameter, match="is read and would be replaced: write to another file"):
            runner.run(live_demo.prepare, Options(str(identity), source, frames=1, **given))
    with pytest.raises(typer.BadParameter, match=r"b\.avi' would be written twice"):
        outputs = [tmp_path / "b.avi", folder / ".." / "b.avi"]
        runner.run(live_demo.prepare, Options(str(identity), output=outputs, frames=1))
    assert clip.read_bytes() == content and cv2.imread(str(picture)) is not None


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_full_disk_ends_a_demo_with_1_and_loses_no_other_file(
    tmp_path: Path, identity: Path, capsys: pytest.CaptureFixture[str], full_disk: Callable[[int], None]
) -> None:
    files = [tmp_path / name for name in ("a.avi", "b.avi", "c.png")]
    for file in files:
        file.write_bytes(b"of an earlier run")
    full_disk(10_000)
    code, printed = play(capsys, identity, output=files, frames=20, size="64x48")
    assert code == 1 and "Traceback" not in printed
    for file in files[:2]:
        assert f"video '{file}' cannot be written: not all of its 20 frames reached the disk" in printed
        assert file.read_bytes() == b"of an earlier run"
    assert f"wrote {files[2]}\n" in printed and cv2.imread(str(files[2])) is not None


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_the_duration_of_a_recording_is_its_own(tmp_path: Path, identity: Path, clip: Path) -> None:
    """30 frames per second of synthetic motion, 25 of the clip, however long they take; never more than --frames."""
    for source, frames, expected in (("synthetic", None, 6), ("synthetic", 4, 4), (str(clip), None, 5)):
        path = tmp_path / "a.avi"
        options = Options(str(identity), source, [path], frames=frames, duration=0.2, loop=source == str(clip))
        runner.run(live_demo.prepare, options)
        assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT) == expected
        if frames is None:  # the same without a recording
            report = runner.run(live_demo.prepare, replace(options, output=[], headless=True))
            assert 1 + report.frames == expected


def test_a_profile_is_complete_or_the_one_before(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    path, stage = tmp_path / "trace.json", fb.StageTime("draw", (0, 1000), (0, 1000))
    Trace(path).close()
    before = path.read_text()
    trace = Trace(path)
    full_disk(2000)

    def fill() -> None:
        for number in range(1000):
            trace.add(number, [stage])

    with pytest.raises(fb.SourceError, match=r"trace\.json' cannot be written: File too large"):
        fill()
    with pytest.raises(fb.SourceError, match=r"trace\.json' cannot be written"):
        trace.close()
    full_disk(resource.RLIM_INFINITY)
    trace.close()
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]
    trace = Trace(path)
    trace.add(0, [stage])
    assert path.read_text() == before
    trace.close()
    assert len(json.loads(path.read_text())) == 4 and list(tmp_path.iterdir()) == [path]


def test_a_file_of_a_command_is_complete_or_the_one_before(tmp_path: Path, full_disk: Callable[[int], None]) -> None:
    path = tmp_path / "new" / "trace.json"
    output.write_file(path, "before")
    full_disk(2000)
    with pytest.raises(fb.SourceError, match=r"trace\.json' cannot be written: File too large"):
        output.write_file(path, "x" * 5000)
    with pytest.raises(fb.SourceError, match="something else than a file is there"):
        output.write_file(path.parent, "x")
    assert path.read_text() == "before" and list(path.parent.iterdir()) == [path]


# Names ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_names_of_files_are_printed_as_they_are(
    tmp_path: Path, identity: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "[").mkdir()
    source, written = clip.rename(tmp_path / "[" / "red].mp4"), tmp_path / "[bold]:smile:.png"
    code, printed = play(capsys, identity, source=str(source), output=[written])
    assert code == 0 and f"wrote {written}" in printed and written.exists()
    code, printed = play(capsys, identity, source="[/red].mp4")
    assert code == 1 and printed.startswith("SourceError: there is no file or folder '[/red].mp4'")


def test_the_name_of_a_file_is_shown_without_its_folder() -> None:
    names = ["video 'folder/clip.mp4'", "picture 'it's.png'", "synthetic:folder/a.png", "synthetic"]
    assert [file_name(name) for name in names] == ["clip.mp4", "it's.png", "a.png", "synthetic"]


def test_control_characters_and_markup_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_line(HOSTILE)
    assert capsys.readouterr().out == f"{SHOWN}\n"
    table = output.make_table("[bold]", "column")
    output.add_row(table, HOSTILE)
    output.print_table(table)
    output.print_figures("[bold]", ("[red]",), (), [[HOSTILE]])
    printed = capsys.readouterr().out
    assert printed.count(SHOWN) == 2 and printed.count("[bold]") == 4 and "[red]" in printed
    console.make_console(file=sys.stdout).print("[red]:smile:")
    assert capsys.readouterr().out == "[red]:smile:\n"


def test_every_console_takes_text_as_it_is() -> None:
    """rich's own Console reads markup: only tools/common/console.py may make one."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in [*(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")), ROOT / "__main__.py"]
        if path.name != "console.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
        if alias.name in ("Console", "Text", "rich", "rich.console", "rich.text", "rich.markup", "print")
    ]
    assert not found


# Signals, and models that cannot run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_once_and_handlers_are_as_before(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def kill() -> None:
        os.kill(os.getpid(), number)

    with ended_by_signals():
        with pytest.raises(KeyboardInterrupt):
            kill()
        kill()  # the end of a recording is not interrupted
    assert signal.getsignal(number) is before
    signal.signal(number, signal.SIG_IGN)  # as nohup does
    with ended_by_signals():
        kill()
    assert signal.getsignal(number) is signal.SIG_IGN
    monkeypatch.setattr(signal, "getsignal", lambda number: None)  # a handler of a C library, as apitrace's
    with ended_by_signals(), pytest.raises(KeyboardInterrupt):
        kill()
    monkeypatch.undo()
    signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_call_from_c_loses_comes_again(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    lost: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    call = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), number))
    with ended_by_signals():
        call()
        assert [each.exc_type for each in lost] == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt):
            raise_if_signalled()
    raise_if_signalled()


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.parametrize("command", [["diff"], ["benchmark"], ["benchmark", "--read", "--backend", "cpu"]], ids=str)
def test_a_model_that_litert_cannot_run_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    path = tmp_path / "custom.tflite"
    path.write_bytes(chain("EXP", "Mine[/x]\x1b[2J"))
    monkeypatch.setattr(sys, "argv", ["framebind", *command, str(path)])
    with pytest.raises(SystemExit) as ended:
        command_line()
    assert r"unresolved custom op: Mine[/x]\x1b[2J." in str(ended.value)
    assert str(ended.value).startswith("ModelError: LiteRT cannot prepare the model: ")
