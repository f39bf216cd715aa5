"""Arrays of numpy.ma are refused: the GPU would get the values that the mask hides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import framebind as fb
from support.recording_driver import RecordingDriver

MASKED: Any = np.ma.masked_equal(np.arange(96, dtype=np.uint8).reshape(4, 6, 4), 7)


def check_refused(*makers: Callable[[Any], object]) -> None:
    for make in makers:
        with pytest.raises(
            fb.BindingError, match=r"of \(4, 6, 4\) uint8 of numpy.ma has a mask, .*: give what its filled"
        ):
            make(MASKED)
        make(MASKED.filled(0))


def test_of_gl_objects(context: fb.GlContext) -> None:
    texture = fb.GlTexture.from_array(np.zeros_like(MASKED.data))
    check_refused(fb.GlTexture.from_array, texture.write, lambda array: fb.GlBuffer(array.nbytes, array))


def test_of_opencl_s_objects(cl_context: fb.cl.ClContext) -> None:
    check_refused(fb.cl.ClBuffer.from_array, fb.cl.ClImage.from_array)


def test_of_cuda_s_objects(recorder: RecordingDriver) -> None:
    with fb.cuda.CudaContext():
        check_refused(fb.cuda.CudaArray.from_array, fb.cuda.CudaImage.from_array)
