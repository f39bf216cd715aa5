"""VideoStage: the work on videos as an object that is called with them, here or in another process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .session import Session
from .work import Work


@dataclass(frozen=True)
class VideoStage(Work):
    """A plain description of the work on each video. Call it with a video and the path of its results without a suffix.

    It can be pickled. Raises SourceError and ModelError for what cannot be read, written or run.
    """

    def __call__(self, source: Path, place: Path) -> dict[str, Any]:
        """Process one video; see ``Session.process``. For many videos a Session compiles the model once."""
        with Session(self) as session:
            return session.process(source, place)
