"""``watch`` on four streams of a real RTSP server on loopback, which is killed, started again and stalled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import framebind as fb
from framebind.video.live.textures import TexturesViewer
from framebind.video.live.watcher import Watcher
from framebind.video.model_options import ModelOptions
from framebind.video.work import Work
from support.environment import absent
from support.tiny_models import chain
from support.video.rtsp_server import PATTERNS, RtspServer, why_absent

pytestmark = pytest.mark.parametrize("context", ["gl"], indirect=True)


@pytest.fixture(scope="module")
def server() -> Iterator[RtspServer]:
    if why := why_absent():
        absent("rtsp", why)
    server = RtspServer()
    yield server
    server.kill()


@pytest.fixture
def watch(context: fb.GlContext, server: RtspServer, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Watch the four streams until each of the steps was reached: conditions of the streams, each with what follows."""
    path = tmp_path / "colours.tflite"
    path.write_bytes(chain("SOFTMAX", shape=(1, 1, 1, 3)))

    def run(*steps: tuple[Callable[[Watcher], bool], Callable[[], None]]) -> list[dict[str, Any]]:
        work = Work("classify", str(path), save=(), options=ModelOptions())
        options = fb.video.StreamOptions(stall=0.4, seconds=20)
        addresses = [server.address(number) for number in range(len(PATTERNS))]
        watcher, left = Watcher(TexturesViewer(context, work), addresses, options), list(steps)
        end = time.monotonic() + 60

        def look() -> None:
            assert time.monotonic() < end, watcher.figures()
            while left and left[0][0](watcher):
                left.pop(0)[1]()
            if not left:
                raise KeyboardInterrupt  # as Ctrl-C does

        with pytest.raises(KeyboardInterrupt):
            watcher.run(tmp_path / "found.jsonl", look, every=0.02)
        return [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]

    return run


def results(least: int) -> Callable[[Watcher], bool]:
    """Whether each stream has at least so many results."""
    return lambda watcher: all(stream.latencies.count >= least for stream in watcher.streams)


def come_back(times: int) -> Callable[[Watcher], bool]:
    """Whether each stream was lost, came back so many times, and is live."""
    return lambda watcher: all(each["reconnects"] >= times and each["state"] == "live" for each in watcher.figures())


def nothing() -> None:
    """Do nothing."""


def check_rows(rows: list[dict[str, Any]]) -> None:
    """Each row of a stream is of its own picture, and the streams' clocks never go back."""
    for number, pattern in enumerate(PATTERNS):
        mine = [row for row in rows if row["source"].endswith(f"/{number}")]
        best = {row["class"] for row in mine if row["score"] > 0.5}
        assert best == ({f"class {number - 1}"} if number else set()), pattern
        times = [row["time"] for row in mine]
        assert times == sorted(times)


def test_four_streams_of_a_server_that_is_started_again(
    server: RtspServer, watch: Callable[..., list[dict[str, Any]]]
) -> None:
    def start_again() -> None:
        server.kill()
        server.start()

    check_rows(watch((results(2), start_again), (come_back(1), nothing)))


def test_a_stall_of_four_streams_and_a_long_absence(
    server: RtspServer, watch: Callable[..., list[dict[str, Any]]]
) -> None:
    def all_wait(watcher: Watcher) -> bool:
        return all(each["state"] == "waiting" for each in watcher.figures())

    rows = watch(
        (results(5), server.stall), (all_wait, server.go_on), (come_back(1), server.kill), (all_wait, server.start),
        (come_back(2), nothing), (results(60), nothing),
    )  # fmt: skip
    check_rows(rows)
