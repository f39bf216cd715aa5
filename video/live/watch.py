"""Watching for programs: the results of live streams as an iterator, with pictures, a page, and recordings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import framebind as fb

from ..apis import BY_NAME
from ..feedback import AUTO
from ..model_options import ModelOptions
from ..work import DETECT, RAW, STYLE, Work, task_for
from .figures import Snapshot
from .recording import SPACE
from .result import WatchResult
from .server import Page, check_origin, parse_place
from .watcher import Watcher, open_viewer


class Watch:
    """Live streams at once through a model. Iterate over it for the result of each frame, as soon as it is there.

    The newest frame of each stream goes through the model. Streams that are lost are connected again. Use it on one
    thread: its GPU context is current there until ``close``, after which the one before is current again.

    Parameters
    ----------
    streams : sequence of str, Path or int
        Addresses (rtsp://, http://, srt://, rtmp://), numbers of cameras, and files, which play at their own rate.
    task : str
        "detect", "face", "hands", "gestures", "pose", "holistic", "classify", "segment", "matte", "style", "depth",
        "optical_flow", "super_resolution", or the name of another file of ``video/tasks``: what is done with each
        frame. By default the task that knows the model best, or "detect" if no model is named.
    model : str or Path
        A .tflite file, or the name of a known model; the task's own by default.
    labels : str or Path, optional
        A text file with the names of the model's classes, one per line; by default those in the model's own file.
    most : int, optional
        How many faces, hands or persons are looked for, as for VideoStage.
    backend : {"opengl", "opencl", "cuda", "auto"}
        The API that runs the model. On CUDA, which "auto" is on a GPU of NVIDIA, NVDEC decodes.
    feedback : str
        The states of a recurrent model, as for VideoStage. Each stream has its own, which begin with zeros.
    input : str
        Values of inputs that are no picture and no state, as for VideoStage.
    options : StreamOptions, optional
        How addresses are opened, and when a stream counts as lost. By default a lost stream is tried again without end.
    record : str or Path, optional
        A folder for videos of what is found, from 3 seconds before it to 3 seconds after, at most 15 pictures per
        second and 960 pixels wide.
    space : float
        Most gigabytes that recordings in the folder take: the oldest ones are removed for new ones.

    Raises
    ------
    ValueError
        For a task or a backend that there is not, and for options of another task.
    SourceError
        If the folder takes no recordings.
    ModelError
        If the model is not one for this task; while iterating, if that needs a frame.

    Examples
    --------
    >>> with fb.video.Watch(["picture.png"], "style") as watch:
    ...     for result in watch:
    ...         print(result.stream, result.frame, result.found, result.picture().shape)
    picture.png 0 [] (48, 64, 4)
    """

    def __init__(
        self,
        streams: Sequence[str | Path | int],
        task: str = "",
        model: str | Path = "",
        *,
        labels: str | Path | None = None,
        most: int | None = None,
        backend: str = "auto",
        feedback: str = AUTO,
        input: str = "",
        options: fb.video.StreamOptions | None = None,
        record: str | Path | None = None,
        space: float = SPACE,
    ) -> None:
        if isinstance(streams, str | Path) or not streams:
            raise ValueError(f"streams={streams!r} is no list of streams: put one alone into a list, too")
        if backend not in (*BY_NAME, "auto"):
            raise ValueError(f"backend '{backend}' is none of {', '.join(BY_NAME)}, auto")
        given = ModelOptions(backend, feedback=feedback, input=input)
        task = task_for(task, str(model), DETECT, given.further)
        if task == RAW or (task == STYLE and record is not None):
            raise ValueError(
                f"the task '{task}' finds nothing: take another one to be told, or to record, what is there"
            )
        self._work = Work(
            task, str(model), save=(), labels=None if labels is None else Path(labels), most=most, options=given,
        )  # fmt: skip
        if options is None:
            options = fb.video.StreamOptions(attempts=None, seconds=None)
        self._closing = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            viewer = stack.enter_context(open_viewer(self._work))
            folder = None if record is None else Path(record)
            self._watcher = Watcher(viewer, list(map(str, streams)), options, folder=folder, space=space)
            stack.callback(self._watcher.stop)
            self._results = stack.enter_context(contextlib.closing(self._watcher.results()))
            self._closing = stack.pop_all()

    def serve(self, place: str | int = 0, *, embed: Sequence[str] = ()) -> str:
        """Serve the page with pictures and figures until ``close``. Returns its address.

        Parameters
        ----------
        place : str or int
            ``[HOST:]PORT``; for this machine only unless another host is named. 0 is a free port.
        embed : sequence of str
            Sites whose pages may show it in an ``<iframe>``, such as "http://localhost:3000".

        Raises
        ------
        ValueError
            If a place or a site is none.
        SourceError
            If the port is taken.
        """
        host, port = parse_place(str(place))
        page = Page(host, port, self._watcher.figures, self._watcher.pictures, embed=list(map(check_origin, embed)))
        return self._closing.enter_context(contextlib.closing(page)).address

    def figures(self) -> list[Snapshot]:
        """The state of each stream now, with its rates, latencies and losses, in the order of the streams."""
        return self._watcher.snapshots()

    def close(self) -> None:
        """End the page, complete the recordings, and close the streams and the context. May be called again."""
        self._closing.close()

    def __iter__(self) -> Iterator[WatchResult]:
        return self

    def __next__(self) -> WatchResult:
        for result in self._results:
            if result is not None:
                return result
        raise StopIteration

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(stream.name for stream in self._watcher.streams)
        return f"<Watch: {self._work.task} with {self._work.model_name} on {names}>"
