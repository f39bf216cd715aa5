"""Pictures on their way to a virtual camera: packed to luma and chroma, and read into memory that its viewers share.

Viewers of PipeWire that take DMA-BUFs get textures, without a copy to the CPU.
"""

from __future__ import annotations

import time as clock
from typing import Any

from ...errors import SourceError
from ...gl.texture import GlTexture
from ...transfers import VIDEO_FRAME
from ..decode.thread_times import WorkTime
from ..paint.marks import Marks
from ..paint.marks_on_textures import Overlay
from ..virtual_cameras.camera import VirtualCamera
from ..virtual_cameras.packing import Packer


class TextureCameraQueue:
    """Packs textures on the GPU, and reads each packed one once, straight into the camera's memory. Implements Queue.

    ``put`` waits until the GPU is done, so that nothing queues up: a viewer sees the newest picture. While nobody
    watches, it does nothing.
    """

    painting: WorkTime | None = None
    encoding: WorkTime | None = None
    waited = 0.0

    def __init__(self, camera: VirtualCamera, name: str, size: tuple[int, int], reason: str = VIDEO_FRAME) -> None:
        self._camera, self._name, self._size, self._reason = camera, name, size, reason
        self._packer: Packer | None = None
        self._overlay: Overlay | None = None
        self.close = self.collected = camera.close

    def put(self, picture: Any, rotation: int, marks: Marks | None, time: float | None, paint: Any) -> None:
        """Show a texture as it is now. Marks are drawn over it, and stay there."""
        texture = self._check(picture)
        if marks is not None:
            self._overlay = self._overlay or Overlay()
            self._overlay.draw(texture, marks)
        if not self._camera.is_watched:
            return
        captured = clock.perf_counter()
        if self._camera.show(texture, captured):
            return
        with self._camera.frame(captured) as memory:
            if memory is None:
                return
            layout = self._camera.layout  # another viewer may have another one: it stays for this block
            if self._packer is None or self._packer.layout != layout:
                self._packer = Packer(layout)
            self._packer.pack(texture).read(out=memory, reason=self._reason)

    def _check(self, texture: Any) -> GlTexture:
        if not isinstance(texture, GlTexture):
            raise SourceError(f"'{self._name}' takes textures, not a {type(texture).__name__}")
        if texture.size != self._size or texture.format != "rgba8":
            given = f"{texture.size[0]}x{texture.size[1]} {texture.format}"
            raise SourceError(f"'{self._name}' takes rgba8 pictures of {self._size[0]}x{self._size[1]}, not {given}")
        return texture

    def end(self) -> None:
        """Do nothing: no frame waits here."""
