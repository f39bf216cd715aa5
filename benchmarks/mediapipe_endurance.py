"""Follows things on the GPU for hundreds of thousands of frames, and says if a row is wrong or if memory grows.

    python benchmarks/mediapipe_endurance.py --bundles FOLDER --task face --backend cuda --frames 1000000

``--bundles`` has face_landmarker.task, hand_landmarker.task or pose_landmarker_full.task. A photograph moves, turns,
leaves and comes back in a round of frames, in the GPU's memory. The last frame has nothing in it, after which a task
remembers nothing: so every round must give exactly the bits of the first one, which is compared with the task on the
CPU. Frames are submitted as a live stream submits them: the rows of one are taken when the next one was submitted.
Every thousandth frame is first a mistake, which must raise; now and then a picture of another size comes, for which
the networks are made anew. Exit code 1 if a row is wrong, or if memory grows after the first fifth. An interrupt ends
the frames, not the report.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import cv2
import numpy as np
import numpy.typing as npt
import typer
from endurance import MISTAKE_EVERY, RESIZES, Findings, begin, report, watch
from mediapipe_chain import found_in, is_compared_as_video, landmarks_of, make_task, photograph_of

import framebind as fb
from framebind import mp
from framebind.video.apis import BY_NAME
from framebind.video.mediapipe.core.gpu_picture import GpuPicture, gpu_picture

Array = npt.NDArray[Any]
SIZE, OTHER_SIZE = (384, 216), (256, 144)
PLACES = [(8 * step, 3 * step, 2 * step) for step in range(10)] + [None, None, (-30, 10, -8), (-26, 8, -6), None]
"""Shifts in pixels and turns in degrees of the photograph in a round; None without it."""
MILLISECONDS = 33
TOLERANCE = 0.005
"""Largest distance of a landmark from that of the CPU, as a part of the picture's sides."""


def pictures(photograph: Array, size: tuple[int, int]) -> list[Array]:
    """The frames of a round, (height, width, 4)."""
    found = list[Array]()
    fitted = np.asarray(cv2.resize(photograph, size))
    for place in PLACES:
        picture = np.full_like(fitted, 90)
        if place is not None:
            turn = cv2.getRotationMatrix2D((size[0] / 2, size[1] / 2), place[2], 1)
            turn[:, 2] += place[:2]
            picture = np.asarray(cv2.warpAffine(fitted, turn, size, borderMode=cv2.BORDER_REPLICATE))
        found.append(np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGBA)))
    return found


class Follower:
    """A task on a context that is current: the frames of a round, and the rows that each of them gave first."""

    def __init__(self, name: str, bundles: Path, api: fb.Backend) -> None:
        self.task, self._mistake = make_task(name, bundles, masks=False), np.zeros((4, 4, 3), np.uint8)
        self._tracker, self.frames = self.task._pipeline.on_gpu, 0
        arrays, others = (pictures(photograph_of(name), size) for size in (SIZE, OTHER_SIZE))
        self._textures = [api.new_texture(each) for each in (*arrays, others[0])]
        *self._round, self._other = (gpu_picture(each) for each in self._textures)
        self._compare_with_cpu(name, bundles, arrays)
        self.expected = [self._rows(picture) for picture in self._round]
        assert len(self.expected[0]) and not len(self.expected[-1]), "nothing is found in the first frame of a round"
        self._submitted: list[tuple[int, Array]] = []
        """The frames whose rows were not taken: their numbers, and what is expected."""

    def _compare_with_cpu(self, name: str, bundles: Path, arrays: list[Array]) -> None:
        video = is_compared_as_video(name)
        with (
            make_task(name, bundles, masks=False, video=video) as cpu,
            make_task(name, bundles, masks=False, video=video) as gpu,
        ):
            for number, (texture, array) in enumerate(zip(self._textures, arrays, strict=False), 1):
                image = mp.Image(mp.ImageFormat.SRGB, np.ascontiguousarray(array[..., :3]))
                found = landmarks_of(found_in(gpu, texture, number, video=video))
                wanted = landmarks_of(found_in(cpu, image, number, video=video))
                assert len(found) == len(wanted), (
                    f"frame {number} has {len(found)} things, and {len(wanted)} on the CPU"
                )
                for one, other in zip(found, wanted, strict=True):
                    assert np.abs(one - other).max() <= TOLERANCE, f"frame {number}: landmarks far from the CPU's"

    def _submit(self, picture: GpuPicture) -> int:
        self.frames += 1
        return self._tracker.submit(picture, self.frames * MILLISECONDS)

    def _rows(self, picture: GpuPicture) -> Array:
        return self._tracker.take(self._submit(picture))

    def frame(self, number: int) -> list[bool]:
        """Submit a frame. Returns whether the rows of the one before are right, if there is one."""
        place = number % len(self._round)
        self._submitted.append((self._submit(self._round[place]), self.expected[place]))
        return self.last() if len(self._submitted) > 1 else []

    def last(self) -> list[bool]:
        """Take the oldest rows. Returns whether they are right, if there are some."""
        if not self._submitted:
            return []
        submitted, expected = self._submitted.pop(0)
        return [np.array_equal(self._tracker.take(submitted), expected)]

    def resize(self) -> bool:
        """Look at a picture of another size behind the last frame of a round, and then at an empty one of this size.

        Returns whether its things are found.
        """
        return [len(self._rows(picture)) for picture in (self._other, self._round[-1])] == [len(self.expected[0]), 0]

    def make_a_mistake(self) -> None:
        """Give an array of the CPU. The task must stay usable."""
        try:
            self.task.detect_for_video(self._mistake, self.frames * MILLISECONDS)
        except ValueError:
            return
        raise AssertionError("an array of NumPy was taken for a picture on the GPU")


def follow(follower: Follower, frames: int, findings: Findings) -> None:
    """Run the frames of a thread, and note what is wrong."""
    rounds = len(PLACES)
    resizes = max(frames // RESIZES // rounds, 1) * rounds
    for number in range(frames):
        if number % MISTAKE_EVERY == MISTAKE_EVERY - 1:
            follower.make_a_mistake()
        right = follower.frame(number)
        is_last = number == frames - 1 or findings.stop.is_set()
        if is_last or number % resizes == resizes - 1:
            right += follower.last()
            right.append(follower.resize())
        with findings.lock:
            findings.mistakes += number % MISTAKE_EVERY == MISTAKE_EVERY - 1
            findings.resizes += is_last or number % resizes == resizes - 1
            findings.frames += 1
            findings.compared += len(right)
            findings.wrong += right.count(False)
            findings.ended = time.perf_counter()
        if is_last:
            return


def run(name: str, bundles: Path, api: fb.Backend, frames: int, start: threading.Barrier, findings: Findings) -> None:
    """Follow things on a thread, in a context of its own. Errors are noted, not raised."""
    try:
        with api.new_context():
            follower = Follower(name, bundles, api)
            start.wait()
            follow(follower, frames, findings)
            follower.task.close()
    except Exception as error:
        start.abort()
        with findings.lock:
            findings.errors.append(f"{type(error).__name__}: {error}")


def main(
    bundles: Annotated[Path, typer.Option(help="The folder of MediaPipe's bundles.")],
    task: Annotated[Literal["face", "hands", "pose"], typer.Option(help="What is followed.")] = "face",
    backend: Annotated[str, typer.Option(help="gl, cl or cuda; or opengl, opencl.")] = "cuda",
    frames: Annotated[int, typer.Option(min=100, help="Frames of all threads together.")] = 1_000_000,
    seconds: Annotated[float, typer.Option(help="End after so many seconds of frames.")] = 1e9,
    threads: Annotated[int, typer.Option(min=1, help="Threads, each with a context.")] = 1,
) -> None:
    """Follow things in a moving photograph, and look for wrong rows and for growth."""
    api, findings, start = BY_NAME[backend], Findings(), threading.Barrier(threads + 1)
    given = task, bundles, api, frames // threads, start, findings
    running = [threading.Thread(target=run, args=given) for _ in range(threads)]
    ready = begin(running, start, findings)
    print(f"{backend}, {task}, {threads} threads: ready after {ready:.1f} s")
    watch(running, frames, seconds, findings, rate=False)
    raise typer.Exit(0 if report(findings, frames // threads * threads, rate=False) else 1)


if __name__ == "__main__":
    typer.run(main)
