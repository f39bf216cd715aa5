"""Videos of one session overlap: the files of one are completed while the next is drawn. What happens is counted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import framebind as fb
from framebind.video.session.session import Session
from framebind.video.work import Work
from framebind.video.workers.jobs import Event, Finished, Job
from framebind.video.workers.worker import work_through
from support.video.clips import write_clip

SECONDS = 20.0


class Drawing:
    """A session whose videos are completed when the next one is drawn. It counts those that are not complete."""

    work = Work("detect")

    def __init__(self, videos: int) -> None:
        self._drawn = [threading.Event() for _ in range(videos + 1)]
        self._drawn[videos].set()
        self.incomplete = self.most = 0

    def begin(self, source: Path, *_: Any) -> Callable[[], dict[str, Any]]:
        number = int(source.stem)
        self._drawn[number].set()
        if number == 1:
            raise fb.SourceError("broken")
        self.incomplete += 1
        self.most = max(self.most, self.incomplete)

        def finish() -> dict[str, Any]:
            assert self._drawn[number + 1].wait(SECONDS), "the next video is drawn meanwhile"
            self.incomplete -= 1
            return {"frames": number}

        return finish


def test_a_video_is_completed_while_the_next_is_drawn() -> None:
    session, events = Drawing(5), list[Event]()
    jobs = [Job(Path(f"{number}.mp4"), Path(f"out/{number}")) for number in range(5)]
    work_through(cast(Session, session), jobs, events.append)
    results = [(Path(event.job.source).stem, event.result) for event in events if isinstance(event, Finished)]
    assert [name for name, _ in results] == ["0", "1", "2", "3", "4"] and "broken" in results[1][1]["error"]
    assert session.most == 2, "one is drawn and one completed, not more"


@pytest.mark.parametrize("context", ["gl"], indirect=True)
def test_a_model_of_any_size_is_compiled_once_for_each_size(
    context: fb.GlContext, tmp_path: Path, model_path: Callable[[str], Path]
) -> None:
    context.check()
    sizes, uploads = [(64, 48), (48, 64), (64, 48), (48, 64)], list[int]()
    with Session(Work("style", save=())) as session:
        for number, size in enumerate(sizes):
            clip = write_clip(tmp_path / f"{number}.mp4", size=size, frames=1)
            before = fb.transfers.bytes_except("camera frame")
            assert len(list(session.frames(session.work, str(clip), None))) == 1
            uploads.append(fb.transfers.bytes_except("camera frame") - before)
    assert min(uploads[:2]) > 0 and uploads[2:] == [0, 0], "weights go up once for each size, and no font"
