"""PySide6: textures of a QOpenGLWidget, whose context is current in initializeGL and paintGL."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from PySide6.QtGui import QImage, QMatrix4x4, QSurfaceFormat
from PySide6.QtOpenGL import QOpenGLTexture, QOpenGLTextureBlitter
from PySide6.QtOpenGLWidgets import QOpenGLWidget
from PySide6.QtWidgets import QApplication

import framebind as fb

from .style import DEFAULT_STYLE, PHOTOGRAPH, Frames, Model, Output, Picture, style_model


class Painting(QOpenGLWidget):
    """Shows a picture as a style model paints it."""

    def __init__(self, picture: Path, model: str, frames: int, output: Path | None) -> None:
        super().__init__()
        self.image, self.model, self.frames, self.output = QImage(str(picture)), model, frames, output
        self.done = 0
        self.setFixedSize(self.image.size())
        self.setWindowTitle("PySide6 and framebind")
        self.frameSwapped.connect(self.next_frame)

    def initializeGL(self) -> None:
        width, height = self.image.width(), self.image.height()
        pixels = self.image.convertToFormat(QImage.Format.Format_RGBA8888)
        self.source = QOpenGLTexture(pixels, QOpenGLTexture.MipMapGeneration.DontGenerateMipMaps)
        self.painted = QOpenGLTexture(QOpenGLTexture.Target.Target2D)
        self.painted.setSize(width, height)
        self.painted.setFormat(QOpenGLTexture.TextureFormat.RGBA8_UNorm)
        self.painted.allocateStorage()
        self.blitter = QOpenGLTextureBlitter()
        self.blitter.create()
        self.interpreter, self.delegate = style_model(self.model, width, height)
        for texture, tensors in ((self.source, self.interpreter.inputs()), (self.painted, self.interpreter.outputs())):
            self.delegate.bind_buffer_to_tensor(fb.GlTexture.from_id(texture.textureId()), tensors[0])

    def paintGL(self) -> None:
        self.interpreter.invoke()
        self.blitter.bind()
        self.blitter.blit(self.painted.textureId(), QMatrix4x4(), QOpenGLTextureBlitter.Origin.OriginTopLeft)
        self.blitter.release()

    def next_frame(self) -> None:
        self.done += 1
        if self.done != self.frames:
            self.update()
            return
        if self.output:
            self.grabFramebuffer().save(str(self.output))
        self.makeCurrent()  # the model's memory, and Qt's textures, are freed in their context
        self.delegate.close()
        del self.source, self.painted, self.blitter
        self.doneCurrent()
        self.close()


def main(
    picture: Picture = PHOTOGRAPH, model: Model = DEFAULT_STYLE, frames: Frames = 0, output: Output = None
) -> None:
    """Paint a picture in a PySide6 program."""
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
