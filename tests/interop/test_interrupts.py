"""An exception of a signal handler, as Ctrl-C, at any place of a copy: the next one works, with the right values."""

from __future__ import annotations

import numpy as np
import pytest

import framebind as fb
from framebind.interop.device import Device
from framebind.interop.frames.read.upload import UploadRing
from framebind.interop.frames.write.readback import ReadbackRing
from framebind.interop.gl import egl
from framebind.interop.gl.khronos import GL
from support.environment import is_wanted
from support.gl_calls import StateReader, differences, set_everything
from support.interrupts import interrupted_everywhere
from support.tiny_models import chain

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Python prints an exception that nothing can take, as in a finalizer."""
VALUES = np.arange(64, dtype=np.float32)
TEXELS = np.arange(256, dtype=np.uint8).reshape(8, 8, 4)


def test_a_buffers_read(context: fb.GlContext) -> None:
    buffer, before = fb.GlBuffer(VALUES.nbytes, VALUES), set(context.objects.mapped)

    def recovered() -> None:
        assert np.array_equal(buffer.read(), VALUES) and set(context.objects.mapped) <= before

    assert interrupted_everywhere(buffer.read, recovered) > 10


def test_a_buffers_write(context: fb.GlContext) -> None:
    buffer = fb.GlBuffer(VALUES.nbytes)

    def recovered() -> None:
        buffer.write(-VALUES)
        assert np.array_equal(buffer.read(), -VALUES)

    assert interrupted_everywhere(lambda: buffer.write(VALUES), recovered) > 10


def test_a_textures_read_and_write(context: fb.GlContext) -> None:
    texture = fb.GlTexture(8, 8)

    def recovered() -> None:
        texture.write(TEXELS)
        assert np.array_equal(texture.read(), TEXELS)

    assert interrupted_everywhere(texture.read, recovered) > 10
    assert interrupted_everywhere(lambda: texture.write(TEXELS[::-1]), recovered) > 10


def test_a_models_results(gpu: Device) -> None:
    interpreter = fb.Interpreter(model_content=chain("ABS", shape=(1, 4, 4, 4)))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    interpreter.set_allow_buffer_handle_output(True)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.full((1, 4, 4, 4), -2, np.float32))
    interpreter.invoke()

    def fetch() -> None:
        interpreter.ensure_tensor_data_is_readable(1)
        interpreter.get_tensor(1)

    def recovered() -> None:
        interpreter.set_tensor(0, np.full((1, 4, 4, 4), -3, np.float32))
        interpreter.invoke()
        interpreter.ensure_tensor_data_is_readable(1)
        assert (interpreter.get_tensor(1) == 3).all()
        interpreter.invoke()

    assert interrupted_everywhere(fetch, recovered) > 10


@pytest.mark.parametrize("stay", [False, True], ids=["fetched", "on the GPU"])
def test_a_models_run(gpu: Device, stay: bool) -> None:
    interpreter = fb.Interpreter(model_content=chain("ABS", shape=(1, 4, 4, 4)))
    interpreter.modify_graph_with_delegate(fb.GpuDelegate())
    interpreter.set_allow_buffer_handle_output(stay)
    interpreter.allocate_tensors()
    interpreter.invoke()

    def run(value: int = -2) -> None:
        interpreter.set_tensor(0, np.full((1, 4, 4, 4), value, np.float32))
        interpreter.invoke()

    def recovered() -> None:
        run(-3)
        interpreter.ensure_tensor_data_is_readable(1)
        assert (interpreter.get_tensor(1) == 3).all()

    assert interrupted_everywhere(run, recovered) > 100


@pytest.mark.parametrize("persistent", [True, False])
def test_a_cameras_frames(context: fb.GlContext, persistent: bool) -> None:
    frames = UploadRing(context, 8, 8, persistent=persistent)

    def upload(color: int = 9) -> fb.GlTexture:
        frames.view(0)[...] = color
        texture = frames.to_texture(0)
        frames.wait(0)
        return texture

    def recovered() -> None:
        assert (upload(77).read()[..., :3] == 77).all()

    assert interrupted_everywhere(upload, recovered) > 50
    frames.release()


def test_a_videos_frames(context: fb.GlContext) -> None:
    copies, texture = ReadbackRing(context, 8, 8), fb.GlTexture.from_array(TEXELS)

    def copy() -> None:
        copies.push(texture)
        taken = copies.take(wait=True)
        assert taken is not None and np.array_equal(taken[1], TEXELS)
        copies.give_back(taken[0])

    def recovered() -> None:
        for slot in (*copies._taken,):  # as the writer of the frame does at last
            copies.give_back(slot)
        while copies.take(wait=True):
            pass
        for slot in (*copies._taken,):
            copies.give_back(slot)
        assert copies.has_room and not copies.taken
        copy()

    assert interrupted_everywhere(copy, recovered) > 50
    copies.release()


@pytest.mark.parametrize("es", [False, True], ids=["gl", "gles"])
def test_a_hosts_state(es: bool) -> None:
    """Reads and uploads put it back, wherever the exception comes, and later ones know that nobody else will."""
    if not is_wanted("gles" if es else "gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    made = egl.create(es, None)
    made.make_current()
    context = fb.GlContext.current()
    buffer, texture, frames = fb.GlBuffer(VALUES.nbytes, VALUES), fb.GlTexture(8, 8), UploadRing(context, 8, 8)
    reader = StateReader(context)
    defaults = reader.read()
    objects = set_everything(context)
    if not es:
        context.gl.glClampColor(GL.CLAMP_READ_COLOR, 1)
    reader.narrow(differences(defaults, reader.read()))
    before = reader.read()

    def upload() -> None:
        frames.to_texture(0)
        frames.wait(0)

    def recovered() -> None:
        assert differences(before, reader.read()) == {} and not context.parts_kept

    for copy in (lambda: buffer.write(VALUES), buffer.read, lambda: texture.write(TEXELS), texture.read, upload):
        assert interrupted_everywhere(copy, recovered) > 100
    del objects
    frames.release()
    context.close()
    made.release()
    made.destroy()


def test_a_context_that_a_model_made_current() -> None:
    """The user's context is current again, wherever the exception comes."""
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    with fb.GlContext.headless() as models, fb.GlContext.headless() as users:

        def use() -> None:
            with models.made_current():
                pass

        def recovered() -> None:
            users.check()
            use()
            users.check()
            assert fb.GlContext.current() is users

        assert interrupted_everywhere(use, recovered) > 5


def test_a_new_context() -> None:
    """The context before is current again, unless the new context is complete when the exception comes."""
    if not is_wanted("gl"):
        pytest.skip("FRAMEBIND_DEVICES leaves it out")
    made = [egl.create(False, None)]  # outside, as an exception may come before anybody has it
    complete = 0
    with fb.GlContext.headless() as users:

        def recovered() -> None:
            nonlocal complete
            if fb.GlContext.current() is not users:
                complete += 1
                made[0].release()
                made[0].destroy()
                users.make_current()
            made[0] = egl.create(False, None)

        assert interrupted_everywhere(lambda: fb.GlContext.owned(lambda: made[0]), recovered) > 20
    assert complete <= 3  # once without an exception, and at its very end
