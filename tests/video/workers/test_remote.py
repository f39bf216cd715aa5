"""Videos and results behind URLs: fsspec's file systems in memory and of the disk."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from typer.testing import CliRunner, Result

import framebind as fb
from framebind.__main__ import app
from framebind.video.work import Work
from framebind.video.workers import remote
from framebind.video.workers.inputs import SUFFIXES, find_inputs
from framebind.video.workers.jobs import Job
from framebind.video.workers.local_files import copied
from framebind.video.workers.manifest import NAME
from support.video.clips import write_clip

SIZE = (64, 48)


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@pytest.fixture
def process(model_path: Callable[[str], Path]) -> Callable[..., Result]:
    model = str(model_path("face_detection_front"))

    def run(*arguments: str | Path) -> Result:
        options = ["--task", "detect", "--model", model, "--save", "jsonl", "--backend", "gl"]
        return CliRunner().invoke(app, ["process", *map(str, arguments), *options])

    return run


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_from_a_bucket_to_a_bucket_and_again(tmp_path: Path, memory: Any, process: Callable[..., Result]) -> None:
    memory.put_file(str(write_clip(tmp_path / "a.mp4", size=SIZE, frames=4)), "/in/a.mp4")
    memory.put_file(str(write_clip(tmp_path / "b.mp4", size=SIZE, frames=2)), "/in/deeper/b.mp4")
    memory.pipe("/in/notes.txt", b"no video")
    first = process("memory://in", "--output", "memory://out")
    assert "2 videos, 6 frames" in first.output, first.output
    assert memory.find("/out") == ["/out/a.jsonl", "/out/deeper/b.jsonl", f"/out/{NAME}"]
    rows = [json.loads(line) for line in memory.cat("/out/deeper/b.jsonl").splitlines()]
    assert [(row["source"], row["frame"]) for row in rows] == [("memory:///in/deeper/b.mp4", n) for n in range(2)]
    assert "--overwrite replaces it" in " ".join(process("memory://in", "--output", "memory://out").output.split())

    memory.put_file(str(tmp_path / "b.mp4"), "/in/a.mp4")
    again = process("memory://in", "--output", "memory://out", "--resume")
    assert "1 video, 2 frames" in again.output and "1 video left out" in again.output
    assert "2 videos left out" in process("memory://in", "--output", "memory://out", "--resume").output
    lines = map(json.loads, memory.cat(f"/out/{NAME}").splitlines())
    assert [line["video"]["source"] for line in lines if "begun" not in line] == [
        "memory:///in/a.mp4", "memory:///in/deeper/b.mp4", "memory:///in/a.mp4",
    ]  # fmt: skip


def test_urls_travel_to_workers(tmp_path: Path, process: Callable[..., Result]) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        write_clip(tmp_path / "in" / f"{number}.mp4", size=SIZE, frames=3)
    result = process(f"file://{tmp_path}/in", "--output", f"file://{tmp_path}/out", "--jobs", "2")
    assert "2 videos, 6 frames" in result.output, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0.jsonl", "1.jsonl", NAME]


def test_urls_that_are_refused(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("github://a:b@main/x.mp4", "simplecache::s3://a/b.mp4", "ssh://host/a.mp4"):
        with pytest.raises(fb.SourceError, match="URLs begin with one of abfs, az, file, gcs, gs, http"):
            find_inputs([url])
    with pytest.raises(fb.SourceError, match="no video at 'memory://nothing"):
        find_inputs(["memory://nothing/*.mp4"])
    memory.store["/in/../../outside.mp4"] = memory.store.get("/x") or fsspec.implementations.memory.MemoryFile()
    with pytest.raises(fb.SourceError, match="leads out of its folder"):
        remote.find("memory://in", SUFFIXES)
    memory.pipe("/in/a.mp4", b"12345")
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": remote.RESERVE + 4}))
    with pytest.raises(fb.SourceError, match="does not fit on the disk: 1 GB stay free"):
        remote.fetch("memory://in/a.mp4", tmp_path / "a.mp4")


def test_a_video_of_a_web_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The video is fetched under its name, and known by its ETag or length. Nothing is put there."""
    (tmp_path / "a.mp4").write_bytes(b"12345")
    monkeypatch.chdir(tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/a.mp4?token=1"
        assert find_inputs([url.replace("http", "HTTP")]) == find_inputs([url])
        (found,) = find_inputs([url])
        assert found.source == url and found.place == Path("a.mp4")
        assert remote.identity(url)["bytes"] == 5
        with copied(Job(url, tmp_path / "out"), Work("detect")) as (source, _, _):
            assert source.name == "a.mp4" and source.read_bytes() == b"12345"
        with pytest.raises(fb.SourceError, match="no video at"):
            find_inputs([f"http://127.0.0.1:{server.server_port}/b.mp4"])
        with pytest.raises(fb.SourceError, match="is no name of a file"):
            find_inputs([f"http://127.0.0.1:{server.server_port}/"])
        server.shutdown()
    with pytest.raises(fb.SourceError, match="cannot be written: results go to one of abfs"):
        remote.put(tmp_path / "a.mp4", url)


@pytest.mark.parametrize("context", ["gl"], indirect=True)
@pytest.mark.usefixtures("context")
def test_no_output_has_a_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    process: Callable[..., Result],
) -> None:
    served = tmp_path / "served"
    served.mkdir()
    write_clip(served / "a.mp4", size=SIZE, frames=2)
    (served / "b.mp4").write_bytes(b"no video")
    monkeypatch.chdir(served)
    output = tmp_path / "out"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server, caplog.at_level("DEBUG", "framebind"):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://me:S3CRET@127.0.0.1:{server.server_port}"
        urls = [f"{base}/{name}?token=S3CRET{number}" for name in ("a.mp4", "b.mp4") for number in range(2)]
        runs = [process(*urls, "--output", output), process(*urls, "--output", output, "--resume")]
        runs += [process(f"{base}/c.mp4?S3CRET", "--output", output), process(urls[0], "--output", f"{base}/?S3CRET")]
        runs += [process(urls[0], "--output", output)]
        server.shutdown()
    runs += [process(urls[0], "--output", output), process("S3://me:S3CRET@a/b", "--output", output)]
    assert "2 videos, 4 frames" in runs[0].output and "2 videos failed" in runs[0].output, runs[0].output
    assert "2 videos left out" in runs[1].output, "URLs that their secrets tell apart are two videos"
    written = [path.read_text() for path in output.rglob("*") if path.is_file()]
    assert len(written) == 3 and "***@127.0.0.1" in written[0]
    said = [*(run.output for run in runs), *(str(run.exception) for run in runs), *written, *caplog.messages]
    assert not [line for text in said for line in text.splitlines() if "S3CRET" in line]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_fetched_video_is_private_and_removed(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/in/a.mp4", b"12345")
    with copied(Job("memory://in/a.mp4", tmp_path / "a"), Work("detect")) as (source, place, work):
        assert source.read_bytes() == b"12345" and source.stat().st_mode & 0o777 == 0o600
        assert place == tmp_path / "a" and work.named == "memory://in/a.mp4"
        folder = source.parent
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not folder.exists()
