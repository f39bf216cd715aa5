"""VideoStage: the work on videos as an object that is called with them, here or in another process."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import framebind as fb

from ..apis import BY_NAME, first_gpu_of_gl
from ..feedback import AUTO
from ..model_options import ModelOptions
from ..results.rows import Row, make_rows
from ..results.tables import in_groups, make_table
from ..work import Masks, Save, Work, default_suffix, is_photograph, task_for
from .session import Session, keeping_current

Source = str | Path


class VideoStage:
    """A description of work on videos. Call it with a video, and it yields rows of the results in its frames.

    It holds plain values: it can be pickled, and sent to other processes. A process opens a GPU context and compiles
    the model when a thread first calls a stage with this description, and keeps both for its further videos: until
    ``close``, or the end of a ``with`` block.

    A row is a dict with these keys: ``source``, the video as it was named; ``time``, the frame's seconds on the video's
    clock, or None if it has none; ``frame``, the number of the frame from the first one that was read; ``class``, a
    str; ``score``, from 0 to 1; ``box``, [left, top, right, bottom]; ``points``, a list of [x, y]; ``point_scores``, a
    score for each point; ``corners``, the four [x, y] of an oriented box; ``share``, the part of the picture that the
    class covers, from 0 to 1; ``mask``, see ``masks``. Boxes and points are in pixels of the picture. What a task does
    not know is None. A frame in which nothing was found has one row, whose ``class`` is None.

    Parameters
    ----------
    task : str
        "style", "segment", "instances", "matte", "detect", "face", "hands", "gestures", "pose", "holistic", "classify",
        "depth", "optical_flow", "super_resolution", "raw", or the name of another file of ``video/tasks``: what is done
        with each frame. By default the task that knows the model best, or "style" if no model is named. "raw", for
        models that no other task knows, gives rows a further key ``outputs``: a float32 array for each output of the
        model, by name.
    model : str or Path
        A .tflite file, or the name of a known model; the task's own by default. Without a task it is read at once.
    save : one or several of {"video", "masks", "jsonl", "parquet", "npz"}
        The files that are written for each video: the painted video with its sound, the masks of "segment",
        "instances", "matte" or "depth", a line of JSON for each row, Parquet (by pyarrow), or, for "raw", the outputs
        of all frames as arrays for ``np.load``.
    masks : {"video", "png", "rle"}
        Saved masks are a video to look at, a folder of PNG files of 8 bits (how much of a pixel a person covers, or the
        number of its class) or, for "depth", of 16 bits (0 far, 65535 near), or COCO's run lengths in the key ``mask``
        of each row, which needs no folder; "depth" has none.
    output : str or Path, optional
        The folder of these files. A video's are named as the video, with another suffix. Those of a photograph are a
        picture of its own name, and one of its mask; rows are beside it (``a.jpg.jsonl``).
    overwrite : bool
        Replace files that are there.
    every : int
        Take every Nth frame.
    start, end : float, optional
        Seconds of the first frame, and of the first one that is left out.
    labels : str or Path, optional
        A text file with the names of the model's classes, one per line; by default those in the model's own file.
    mean, std : float or three floats, optional
        Normalization of the picture's values from 0 to 1, as in the model's training; by default what the model's own
        file says, or else what models of the task usually take.
    depth : {"", "inverse", "metres"}
        What the values of the task "depth" are: inverse depth, of which the largest is the nearest, or metres. By
        default what the names of the file and its output say, and else inverse depth.
    most : int, optional
        How many faces, hands or persons "face", "hands", "gestures" and "pose" look for, 1 to 16; by default one, of
        hands two. Each costs as much as the first one, also if it is not there.
    background : str, optional
        A colour as #rrggbb, a picture file or "blur", behind the people of "matte"; or "alpha": saved videos and
        pictures are transparent there.
    suffix, codec, quality : optional
        The saved videos' format (".mp4", ".webm", ".gif"; ".png" is a folder of PNG files), and their codec and quality
        as ``VideoWriter`` takes them. By default ".mp4", or with alpha ".mov" (ProRes 4444); ".webm" and ".mkv" (VP9)
        and ".png" have alpha, too.
    backend : str
        The API that runs the model. On CUDA, which "auto" is on a GPU of NVIDIA if only rows are saved, NVDEC decodes
        and no picture comes to the CPU, unless a video is saved. Masks do not follow the picture's edges then.
    f16 : bool
        Store weights in 16 bits.
    feedback : str
        The states of a recurrent model, "output:input" with commas between ("r1o:r1i,r2o:r2i"), or "none"; by default
        those whose names or shapes pair up. They begin with zeros in each video.
    input : str
        Values of inputs that are no picture and no state, "NAME=VALUE" with commas between. The downsample_ratio of a
        matting model has a default.
    cache : str or Path, optional
        The folder that keeps compiled programs for the next start.

    Raises
    ------
    ValueError
        For a task or a kind of file that there is not, for options of another task, for files without a folder, and for
        an end that is not after the start.
    ModelError
        If the task is to be chosen, and the model cannot be read.

    Examples
    --------
    >>> stage = fb.video.VideoStage("style")
    >>> with stage:
    ...     for row in stage("picture.png"):
    ...         print(row["source"], row["frame"], row["class"])
    picture.png 0 None
    """

    def __init__(
        self,
        task: str | None = None,
        model: Source = "",
        *,
        save: Save | Sequence[Save] = (),
        masks: Masks = "video",
        output: Source | None = None,
        overwrite: bool = False,
        every: int = 1,
        start: float = 0.0,
        end: float | None = None,
        labels: Source | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        background: str = "",
        depth: str = "",
        most: int | None = None,
        suffix: str = "",
        codec: str | None = None,
        quality: int | None = None,
        backend: str = "opengl",
        f16: bool = False,
        cache: Source | None = None,
        feedback: str = AUTO,
        input: str = "",
    ) -> None:
        save = (save,) if isinstance(save, str) else tuple(save)
        if output is None and set(save) - ({"masks"} if masks == "rle" else set()):
            raise ValueError(f"save={save} needs the folder of these files: output")
        if output == "":
            raise ValueError("output='' is no folder: '.' is the current one")
        if backend not in (*BY_NAME, "auto"):
            raise ValueError(f"backend '{backend}' is none of {', '.join(BY_NAME)}, auto")
        delegate = fb.GpuDelegateOptions(is_precision_loss_allowed=f16)
        options = ModelOptions(
            backend, delegate=delegate, cache=Path(cache) if cache is not None else None, feedback=feedback, input=input
        )
        self.work = Work(
            task_for(task or "", str(model), further=options.further), str(model), save=save, masks=masks,
            suffix=suffix or default_suffix(background), codec=codec, quality=quality, every=every, start=start,
            end=end, labels=None if labels is None else Path(labels), background=background, depth=depth, most=most,
            mean=_channels(mean), std=_channels(std), options=options,
        )  # fmt: skip
        self.output = None if output is None else Path(output)
        self.overwrite = overwrite

    @overload
    def __call__(
        self, source: Source, *, start: float | None = None, end: float | None = None, place: Source | None = None
    ) -> Iterator[Row]: ...
    @overload
    def __call__(self, source: Mapping[str, Sequence[Any]]) -> Iterator[Any]: ...
    def __call__(
        self,
        source: Source | Mapping[str, Sequence[Any]],
        *,
        start: float | None = None,
        end: float | None = None,
        place: Source | None = None,
    ) -> Iterator[Row] | Iterator[Any]:
        """Process a video, or a part of it, and yield its rows.

        Saved files get their final names once the last row was taken.

        Parameters
        ----------
        source : str, Path or dict
            A video. A dict is a batch of Ray Data: columns "path", and if wanted "start", "end" and "place".
        start, end : float, optional
            Seconds of the part; the stage's own by default.
        place : str or Path, optional
            The path of the saved files without suffix; by default the folder ``output`` and the source's name. Parts of
            one video, and videos of one name, need places of their own.

        Returns
        -------
        iterator
            Of rows. For a batch, of pyarrow tables of at most 4096 rows, with the columns of a row and "error": a video
            that cannot be read has a row with the message there. Of "raw", each output is a column of flat values.

        Raises
        ------
        SourceError
            If the video cannot be read, or its files cannot be written or are there.
        ModelError
            If the model is not one for this task.
        """
        if isinstance(source, Mapping):
            return self._batch(source)
        return self._rows(source, start, end, place)

    def rows(
        self, source: Source, *, start: float | None = None, end: float | None = None, place: Source | None = None
    ) -> list[Row]:
        """All rows of a video at once. Parameters and errors are a call's.

        ``multiprocessing`` pickles results, which a list can be: ``pool.map(stage.rows, paths)``.
        """
        return list(self(source, start=start, end=end, place=place))

    def times(self) -> dict[str, dict[str, float]]:
        """Seconds of each stage of the last video that this thread processed with this description; empty if none.

        Returns
        -------
        dict
            By track: "decoder", "thread" (that of the GPU's context), "GPU" and "encoder", each with what it did, its
            waits, and "cpu", the CPU time of its thread. They work side by side, so each track has all seconds of the
            video. ``process --profile`` draws the same.
        """
        sessions = _kept(self.work)
        return sessions[-1].times if sessions else {}

    def close(self) -> None:
        """Close the context and the models that this thread keeps for this description. Later calls open new ones."""
        for session in _kept(self.work):
            session.__exit__()
        _kept(self.work).clear()

    def __enter__(self) -> VideoStage:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        saved = f", saves {' and '.join(self.work.save)} in '{self.output}'" if self.work.save else ""
        return f"<VideoStage: {self.work.task} with {self.work.model_name}{saved}>"

    def _rows(self, source: Source, start: float | None, end: float | None, place: Source | None) -> Iterator[Row]:
        work = replace(
            self.work, start=self.work.start if start is None else start, end=self.work.end if end is None else end
        ).of(source)
        for rows in _frames(self.work, work, str(source), self._place(source, place)):
            yield from rows

    def _place(self, source: Source, place: Source | None) -> Path | None:
        """The path of the saved files without suffix, or, for a photograph, with its own; None if there are none."""
        if not self.work.save or self.output is None:
            return None
        name = Path(fb.video.masked_address(source))
        found = self.output / name.stem if place is None else Path(place)
        if is_photograph(name) and not is_photograph(found):
            found = found.with_name(found.name + name.suffix)
        for path in filter(Path.exists, self.work.of(source).outputs(found)):
            if path.resolve() == Path(source).resolve():
                raise fb.SourceError(f"'{path}' is read and would be replaced: take another output")
            if not self.overwrite:
                raise fb.SourceError(f"'{path}' is there: overwrite=True replaces it")
        return found

    def _batch(self, batch: Mapping[str, Sequence[Any]]) -> Iterator[Any]:
        count = len(batch["path"])
        columns = (batch.get(name, [None] * count) for name in ("start", "end", "place"))
        for path, start, end, place in zip(batch["path"], *columns, strict=True):
            try:
                rows = self(str(path), start=_given(start), end=_given(end), place=_given(place))
                yield from map(make_table, in_groups(rows))
            except (fb.FramebindError, OSError, ValueError) as error:
                yield make_table(make_rows(str(path), None, None, []), f"{type(error).__name__}: {error}")


def _given(value: Any) -> Any:
    """A value of a column; None for what columns have in its place, which is not a number in those of floats."""
    return None if value != value else value


def _channels(values: float | Sequence[float] | None) -> tuple[float, ...] | None:
    if values is None:
        return None
    return (float(values),) if isinstance(values, int | float) else tuple(map(float, values))


class _Thread(threading.local):
    """The sessions that a thread keeps, by process and work. A forked process cannot use those of its parent."""

    def __init__(self) -> None:
        self.idle: dict[tuple[int, Work], list[Session]] = {}


_thread = _Thread()


def _kept(work: Work) -> list[Session]:
    return _thread.idle.setdefault((os.getpid(), work), [])


def _frames(kept: Work, work: Work, source: str, place: Path | None) -> Iterator[list[Row]]:
    """The rows of each frame, from a session that no other video uses now: a kept one, or a new one, which is kept."""
    with contextlib.ExitStack() as stack:
        session = _kept(kept).pop() if _kept(kept) else _open(kept)
        stack.callback(lambda: _kept(kept).append(session))
        yield from session.frames(work, source, place)


def _open(work: Work) -> Session:
    return Session(work, egl=_visible_gpu(os.environ.get("CUDA_VISIBLE_DEVICES", ""))).__enter__()


@functools.cache
def _visible_gpu(visible: str) -> int | None:
    """The EGL number of the GPU that CUDA_VISIBLE_DEVICES names first: Ray and others share GPUs out by it.

    OpenGL does not look at it. None, the first GPU that works, if it is empty or names none that OpenGL has.
    """
    if not visible:
        return None
    with keeping_current():
        return first_gpu_of_gl()
