"""The memory of one input or output of a CompiledModel, with the interface of LiteRT's TensorBuffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ..interop.device import Device
from ..interop.dlpack import device_of, host_array, is_on_host
from ..interop.errors import BindingError
from ..interop.gl.buffer import GlBuffer
from ..interop.gl.texture import GlTexture
from ..interop.gl.user_objects import as_gl_object
from ..interop.memory.buffers import BaseBuffer
from ..interop.uncopied import Uncopied
from ..kernels.views import TEXTURE_CHANNELS
from .plan.binding import Crop, TensorLayout, Values

if TYPE_CHECKING:
    from typing_extensions import Unpack

_LITERTS = (
    np.float32, np.float16, np.int32, np.int8, np.uint8, np.bool_,
    ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
)  # fmt: skip
"""The types that LiteRT's TensorBuffer takes."""
_DTYPES = {np.dtype(kind) for kind in (*_LITERTS, np.int16, np.int64, np.uint16, np.uint32, np.uint64)}


class PictureMapping(TypedDict, total=False):
    """The relation of a picture's texels and a tensor's values: see ``GpuDelegate.bind_buffer_to_tensor``."""

    mean: Values
    std: Values
    order: str | None
    crop: Crop | None
    rotation: float
    flip: str
    layout: TensorLayout | None
    pad: Values | None


class TensorBuffer(Uncopied):
    """Memory of one input or output of a CompiledModel: an array of the host, or an object on the GPU.

    ``CompiledModel.create_input_buffers`` and its like make them, and the methods ``create_from_host_memory`` and
    ``from_...`` take memory that a program has. The model reads and writes an object on the GPU in place: a run copies
    nothing. Names, arguments and errors are those of ``ai_edge_litert.tensor_buffer.TensorBuffer``, except for
    ``capsule``, which leads into LiteRT's own library. The ``from_...`` methods are framebind's.

    Examples
    --------
    >>> import ai_edge_litert.hardware_accelerator as accelerators
    >>> with fb.GlContext.headless():
    ...     model = fb.CompiledModel.from_file("model.tflite", accelerators.HardwareAccelerator.GPU, backend="opengl")
    ...     image, result = fb.GlBuffer.from_array(np.zeros((1, 4, 5, 3), np.float32)), fb.GlBuffer(240)
    ...     inputs, outputs = [fb.TensorBuffer.from_gl_buffer(image)], [fb.TensorBuffer.from_gl_buffer(result)]
    ...     with fb.transfer_guard("disallow"):
    ...         model.run_by_index(0, inputs, outputs)
    ...     outputs[0].read(2, np.float32)
    ...     model.close()
    array([1., 1.], dtype=float32)
    """

    def __init__(
        self,
        memory: Any,
        label: str,
        *,
        made_for: tuple[int, ...] | None = None,
        device: Device | None = None,
        mapping: PictureMapping | None = None,
        as_object: bool = False,
    ) -> None:
        """``made_for`` is the shape of the tensor that the memory was made for, on the host or in float32 on a device.

        ``as_object``: an array of the host is bound to tensors on the GPU as GPU objects are.
        """
        unknown = set(mapping or ()) - set(PictureMapping.__annotations__)
        if unknown:
            known = ", ".join(PictureMapping.__annotations__)
            raise TypeError(f"a TensorBuffer takes no argument {', '.join(sorted(unknown))}: it takes {known}")
        self._memory: Any = memory
        self._device, self._label = device, label
        self._mapping, self._as_object, self._is_made = mapping or PictureMapping(), as_object, made_for is not None
        self._dtype = "float32" if device is not None else _dtype_of(memory)
        self._shape = _shape_of(memory) if made_for is None else made_for

    def __repr__(self) -> str:
        state = "destroyed" if self._memory is None else f"{self._dtype} {self._shape}, {type(self._memory).__name__}"
        return f"<TensorBuffer: {self._label}, {state}>"

    # Memory that a program has ----------------------------------------------------------------------------------------

    @classmethod
    def create_from_host_memory(cls, data_array: np.ndarray) -> TensorBuffer:
        """Take a NumPy array as it is: each run copies its values at that time, or copies results into it.

        Parameters
        ----------
        data_array
            A C-contiguous array of the tensor's type, and of its shape or size.

        Raises
        ------
        ValueError
            For another object, a type that no tensor has, or an array with gaps.
        """
        _check_array(data_array)
        if not data_array.flags.c_contiguous:
            raise BindingError("data_array must be C-contiguous for zero-copy host-memory binding: give a copy")
        return cls(data_array, _array_label(data_array))

    @classmethod
    def from_gl_texture(cls, texture: Any, **mapping: Unpack[PictureMapping]) -> TensorBuffer:
        """Take a GL texture of the current context in place, for a model on OpenGL, or on OpenCL or CUDA beside it.

        Parameters
        ----------
        texture
            A GlTexture, a moderngl Texture, or the GL name of a 2-D texture.
        mapping
            ``mean``, ``std``, ``order``, ``crop``, ``rotation``, ``flip``, ``layout`` and ``pad`` of
            ``GpuDelegate.bind_buffer_to_tensor``, which says which textures fit a tensor.

        Raises
        ------
        BindingError
            If it is no texture, or is released.
        DeviceError
            If no GL context is current on this thread.
        """
        memory = GlTexture.from_id(texture) if isinstance(texture, int) else as_gl_object(texture)
        if not isinstance(memory, GlTexture):
            raise BindingError(f"{memory.label} is no texture: give it to TensorBuffer.from_gl_buffer")
        return cls(memory, memory.label, mapping=mapping)

    @classmethod
    def from_gl_buffer(cls, buffer: Any) -> TensorBuffer:
        """Take a GL buffer of the current context in place: float32 values in the tensor's order, without padding.

        Parameters
        ----------
        buffer
            A GlBuffer (``GlBuffer.from_id`` makes one of a part of a buffer), a moderngl Buffer, or a buffer's GL name.

        Raises
        ------
        BindingError
            If it is no buffer, or is released.
        DeviceError
            If no GL context is current on this thread.
        """
        memory = GlBuffer.from_id(buffer) if isinstance(buffer, int) else as_gl_object(buffer)
        if not isinstance(memory, GlBuffer):
            raise BindingError(f"{memory.label} is no buffer: give it to TensorBuffer.from_gl_texture")
        return cls(memory, memory.label)

    @classmethod
    def from_cl(cls, memory: Any, **mapping: Unpack[PictureMapping]) -> TensorBuffer:
        """Take an OpenCL object in place.

        Parameters
        ----------
        memory
            A ClBuffer or ClImage, or a pyopencl Buffer, Image or Array, of the context that the model runs in.
        mapping
            As for ``from_gl_texture``, for images.

        Raises
        ------
        BindingError
            If it is no such object.
        """
        from ..interop.cl.user_objects import as_cl_object

        taken = as_cl_object(memory)
        return cls(taken, taken.label, mapping=mapping)

    @classmethod
    def from_cuda(cls, array: Any, **mapping: Unpack[PictureMapping]) -> TensorBuffer:
        """Take memory of CUDA in place. Each run begins after what the array's library has submitted before.

        Parameters
        ----------
        array
            A CudaArray or CudaImage, or an array on the GPU with ``__dlpack__`` or ``__cuda_array_interface__``, which
            its own library reads and writes.
        mapping
            As for ``from_gl_texture``, for pictures.

        Raises
        ------
        BindingError
            If it is no memory of CUDA.
        """
        from ..interop.cuda.user_objects import is_cuda_object

        if not is_cuda_object(array):
            raise BindingError(
                f"a {type(array).__name__} is no memory of CUDA: give a CudaArray, a CudaImage, or an array on the GPU "
                "with __dlpack__ or __cuda_array_interface__"
            )
        return cls(array, _label_of(array), mapping=mapping)

    @classmethod
    def from_dlpack(cls, array: Any, **mapping: Unpack[PictureMapping]) -> TensorBuffer:
        """Take an array of any library that speaks DLPack, in place.

        Parameters
        ----------
        array
            An array with ``__dlpack__`` on the GPU, as for ``from_cuda``, or in the CPU's memory. A model on the GPU
            takes the latter as ``GpuDelegate.bind_buffer_to_tensor`` does, also with strides and as pictures of bytes;
            each run copies it, counted.
        mapping
            As for ``from_gl_texture``, for pictures.

        Raises
        ------
        BindingError
            If it does not speak DLPack, or is on another device.
        """
        if device_of(array) is None:
            raise BindingError(f"a {type(array).__name__} does not speak DLPack: it has no __dlpack__")
        if not is_on_host(array):
            return cls.from_cuda(array, **mapping)
        taken = host_array(array)
        return cls(taken, _array_label(taken), mapping=mapping, as_object=True)

    # Reading and writing ----------------------------------------------------------------------------------------------

    @property
    def memory(self) -> Any:
        """The array of the host, or the object on the GPU, such as a GlBuffer. Raises BindingError after ``destroy``.

        A run puts a new array here if the model made the host's memory of an output.
        """
        if self._memory is None:
            raise BindingError(f"{self._label}: TensorBuffer has been destroyed: make a new one")
        return self._memory

    @property
    def is_on_host(self) -> bool:
        """Whether the memory is an array of the host."""
        return isinstance(self._memory, np.ndarray)

    @property
    def _knows_shape(self) -> bool:
        """Whether ``shape`` is a tensor's: the memory was made for one, or is an array of the host."""
        return self._is_made or (self.is_on_host and not self._as_object)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the memory's elements."""
        return self._shape

    def write(self, data_array: np.ndarray) -> None:
        """Copy an array into the memory, from its first byte on. A copy to the GPU is counted.

        Parameters
        ----------
        data_array
            An array of the tensor's type, of any shape. Of another type it has as many bytes as the memory, which are
            copied as they are.

        Raises
        ------
        ValueError
            For another object, or a type that no tensor has.
        BindingError
            If the bytes do not fit, after ``destroy``, or if the memory has a library of its own that writes it.
        """
        _check_array(data_array)
        memory, array = self.memory, np.ascontiguousarray(data_array).reshape(-1)
        self._check_bytes(array.dtype, array.nbytes, "source buffer is larger than the tensor buffer")
        reason = f"TensorBuffer.write to {self._label}"
        if self.is_on_host:
            self._host_bytes()[: array.nbytes] = array.view(np.uint8)
        elif self._device is not None:
            with self._device.entered():
                self._device.write(memory, array, reason)
        elif isinstance(memory, BaseBuffer):
            memory.write(array, reason=reason)
        else:
            self._refuse_copies("write")

    def read(self, num_elements: int, output_dtype: npt.DTypeLike) -> np.ndarray:
        """Copy the memory's first elements into a new array. Waits for the model; a copy from the GPU is counted.

        Parameters
        ----------
        num_elements
            The number of elements, or a shape.
        output_dtype
            The tensor's type. Another type takes all bytes of the memory, as they are.

        Raises
        ------
        ValueError
            For a type that no tensor has.
        BindingError
            As for ``write``.
        """
        result = np.empty(num_elements, _checked_dtype(output_dtype))
        memory = self.memory
        self._check_bytes(result.dtype, result.nbytes, "destination buffer is larger than the tensor buffer")
        reason = f"TensorBuffer.read of {self._label}"
        if self.is_on_host:
            result.reshape(-1).view(np.uint8)[...] = self._host_bytes()[: result.nbytes]
        elif self._device is not None:
            with self._device.entered():
                self._device.read(memory, result, reason)
        elif isinstance(memory, BaseBuffer):
            memory.read(result, reason=reason)
        else:
            self._refuse_copies("read")
        return result

    def get_tensor_details(self) -> dict[str, Any]:
        """``{"dtype": "float32", "shape": [1, 4]}``: of the tensor for which the memory was made, or of the memory.

        A picture has its format as dtype, and the shape (height, width, channels).
        """
        return {"dtype": self._dtype, "shape": list(self._shape)} if self.memory is not None else {}

    def destroy(self) -> None:
        """Let go of the memory. What ``CompiledModel`` has made is freed. Calling it again does nothing."""
        if self._device is not None and self._memory is not None:
            self._memory.release()
        self._memory = None

    def _to_bind(self) -> Any:
        """The memory as a delegate takes it: an array of the host in the order of its elements, whatever its shape."""
        return self._memory.reshape(-1) if self.is_on_host and not self._as_object else self._memory

    def _take(self, values: np.ndarray) -> None:
        """Keep the results of a run in the host's memory that was made for them."""
        self._memory, self._shape = values, values.shape

    def _host_bytes(self) -> np.ndarray:
        if not self._memory.flags.c_contiguous:
            self._refuse_copies("read and write")
        return self._memory.reshape(-1).view(np.uint8)

    def _check_bytes(self, dtype: np.dtype[Any], nbytes: int, too_large: str) -> None:
        """Raise BindingError if bytes of an array do not fit the memory."""
        total = getattr(self._memory, "nbytes", 0)
        if not total:
            return  # a picture, or an array of another library
        if nbytes > total:
            raise BindingError(f"{self._label}: {too_large}: {nbytes} bytes, and it has {total}")
        if dtype.name != self._dtype and nbytes != total:
            raise BindingError(
                f"{self._label} is {self._dtype}, and an array of {dtype} is not: use astype(np.{self._dtype}), or all "
                f"{total} bytes"
            )

    def _refuse_copies(self, action: str) -> NoReturn:
        raise BindingError(f"{self._label}: {action} it by its own methods: its memory is a {_kind(self._memory)}")


def _check_array(array: Any) -> None:
    """Raise ValueError, with LiteRT's words, for what is no array of numbers that tensors have."""
    if not isinstance(array, np.ndarray):
        raise BindingError("data_array must be a NumPy array")
    _checked_dtype(array.dtype)


def _checked_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """A type that tensors have. Raises ValueError with LiteRT's words for any other."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found not in _DTYPES:
        raise BindingError(f"Unsupported dtype: {dtype}")
    return found


def _array_label(array: np.ndarray) -> str:
    return f"an array of {array.shape} {array.dtype}"


def _kind(memory: Any) -> str:
    return f"{type(memory).__module__.split('.')[0]} {type(memory).__name__}"


def _label_of(memory: Any) -> str:
    return getattr(memory, "label", "") or _kind(memory)


def _dtype_of(memory: Any) -> str:
    """The name of the type of the elements: "float32", also of "torch.float32"; the format of a picture."""
    if getattr(memory, "format", "") in TEXTURE_CHANNELS:
        return memory.format
    return str(getattr(memory, "dtype", "float32")).rpartition(".")[2]


def _shape_of(memory: Any) -> tuple[int, ...]:
    if getattr(memory, "format", "") in TEXTURE_CHANNELS:
        return memory.size[1], memory.size[0], TEXTURE_CHANNELS[memory.format]
    return tuple(getattr(memory, "shape", ()))
