"""PySide6: textures of a QOpenGLWidget, whose context is current in initializeGL and paintGL."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from PySide6.QtCore import QSize
from PySide6.QtGui import QImage, QMatrix4x4, QPainter, QSurfaceFormat, QTransform
from PySide6.QtOpenGL import (
    QOpenGLFramebufferObject,
    QOpenGLPaintDevice,
    QOpenGLTexture,
    QOpenGLTextureBlitter,
)
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QApplication

import framebind as fb
from framebind.video.assets import PHOTOGRAPH, STYLE_MODEL


class Painting(QOpenGLWidget):
    """A widget that shows a moving photograph as a model paints it."""

    def __init__(self, picture: Path, model: Path, frames: int, output: Path | None) -> None:
        super().__init__()
        self.photograph = QImage(str(picture))
        self.mirrored, self.model = self.photograph.transformed(QTransform().scale(-1, 1)), model
        self.frames, self.output, self.done = frames, output, 0
        self.setFixedSize(self.photograph.size())
        self.setWindowTitle("PySide6 and framebind")
        self.frameSwapped.connect(self.next_frame)

    def initializeGL(self) -> None:
        width, height = self.photograph.width(), self.photograph.height()
        self.canvas = QOpenGLFramebufferObject(QSize(width, height))  # its texture is the frame
        self.device = QOpenGLPaintDevice(width, height)
        self.device.setPaintFlipped(True)  # pictures begin with the top row
        self.painted = QOpenGLTexture(QOpenGLTexture.Target.Target2D)
        self.painted.setSize(width, height)
        self.painted.setFormat(QOpenGLTexture.TextureFormat.RGBA8_UNorm)
        self.painted.allocateStorage()
        self.blitter = QOpenGLTextureBlitter()
        self.blitter.create()
        self.delegate = fb.GpuDelegate(fb.GpuDelegateOptions(backend="opengl"))  # in the context that is current
        self.interpreter = fb.Interpreter(self.model, experimental_delegates=[self.delegate])
        (x,), (y,) = self.interpreter.inputs(), self.interpreter.outputs()
        self.interpreter.resize_tensor_input(x, (1, height, width, 3))
        self.interpreter.set_allow_buffer_handle_output(True)  # the result stays on the GPU
        self.delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(self.canvas.texture()), x)
        self.delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(self.painted.textureId()), y)

    def paintGL(self) -> None:
        width = self.photograph.width()
        left = -2 * self.done % (2 * width) - 2 * width  # the photograph moves two pixels per frame
        self.canvas.bind()
        painter = QPainter(self.device)
        for column, part in enumerate((self.photograph, self.mirrored, self.photograph, self.mirrored)):
            painter.drawImage(left + column * width, 0, part)
        painter.end()
        self.canvas.release()
        self.interpreter.invoke()
        self.blitter.bind()
        self.blitter.blit(self.painted.textureId(), QMatrix4x4(), QOpenGLTextureBlitter.Origin.OriginTopLeft)
        self.blitter.release()

    def next_frame(self) -> None:
        """Ask for the next frame, or end after the last one."""
        if self.done + 1 != self.frames:
            self.done += 1
            self.update()
            return
        if self.output:
            self.grabFramebuffer().save(str(self.output))  # which paints this frame again
        self.makeCurrent()  # the model's memory, and Qt's textures, are freed in their context
        self.delegate.close()
        del self.canvas, self.device, self.painted, self.blitter
        self.doneCurrent()
        self.close()


def main(picture: Path = PHOTOGRAPH, model: Path = STYLE_MODEL, frames: int = 0, output: Path | None = None) -> None:
    """Paint a moving photograph. With --frames N it ends after N frames, and --output PNG saves the last one."""
    wanted = QSurfaceFormat()
    wanted.setVersion(4, 3)
    wanted.setProfile(QSurfaceFormat.OpenGLContextProfile.CoreProfile)
    QSurfaceFormat.setDefaultFormat(wanted)
    application = QApplication(sys.argv[:1])
    painting = Painting(picture, model, frames, output)
    painting.show()
    application.exec()


if __name__ == "__main__":
    typer.run(main)
