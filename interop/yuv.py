"""Pictures of video as decoders give them out: planes of luma and chroma, and the meaning of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from ..kernels.colours import YuvColours, YuvMatrix, YuvRange
from .errors import BindingError
from .pixel_formats import YUV_FORMATS, PlanarFormat, YuvFormat, YuvSiting


class MatrixNumbers(NamedTuple):
    """The numbers of a colour matrix in FFmpeg."""

    colorspaces: tuple[int, ...]
    """AVColorSpace, whose numbers are those of ITU-T H.273 table 4. The first one is written, all are read."""
    swscale: int
    """SWS_CS, which swscale takes."""


MATRIX_NUMBERS: dict[YuvMatrix, MatrixNumbers] = {
    "bt709": MatrixNumbers((1,), 1),
    "bt601": MatrixNumbers((6, 5), 5),  # SMPTE 170M and BT.470 BG: one matrix, other primaries
    "bt2020": MatrixNumbers((9,), 9),
}
_KNOWN = {"matrix": get_args(YuvMatrix), "range": get_args(YuvRange), "siting": get_args(YuvSiting)}
RANGE_NUMBERS: dict[YuvRange, int] = {"limited": 1, "full": 2}
"""FFmpeg's AVColorRange."""
_MATRICES: dict[int, YuvMatrix] = {
    number: matrix for matrix, numbers in MATRIX_NUMBERS.items() for number in numbers.colorspaces
}
_UNSPECIFIED, _FULL_RANGE, _HD_HEIGHT = 2, 2, 720
"""AVCOL_SPC_UNSPECIFIED, AVCOL_RANGE_JPEG, and the height from which on unspecified video is taken for BT.709."""


class YuvPicture:
    """A picture of video in planes of luma and chroma. A model's first convolution samples it: no RGB frame exists.

    It is bound like a texture: ``bind_buffer_to_tensor(picture, input, mean=..., std=..., crop=...)``, with the crop in
    pixels of luma, and the channels "r", "g" and "b" from 0 to 1. Luma and chroma are each sampled bilinearly (luma
    exactly if the tensor has the picture's size), then become colours, which are clipped. If the width or height is
    odd, chroma's half of it is rounded up.

    Parameters
    ----------
    planes : sequence
        Luma, then chroma, in the memory of the model's API, or all on the CPU:

        - arrays of uint8, or of uint16 for 10 bits, of shape (height, width), and (height, width, 2) of two chromas in
          one plane: on CUDA with ``__dlpack__`` or ``__cuda_array_interface__``, of pyopencl, or on the CPU (NumPy, or
          ``frame.planes`` of PyAV), from where each ``invoke`` copies them, counted. Rows may be further apart than
          they are long, and there may be more of them: decoders pad planes;
        - GL textures or OpenCL images of the planes' sizes: r8 and rg8, or r16 and rg16;
        - GL or OpenCL buffers of rows without padding. GL's have a multiple of 4 bytes.
    format : str
        "nv12" (luma, and both chromas in one plane), "p010" (the same with 10 bits, in the high bits of 16),
        "yuv420p" (three planes), "yuv422p", "yuv444p", "yuv420p10" (10 bits in the low bits of 16), "yuv422p10" or
        "yuv444p10": FFmpeg's names, with or without its "le".
    matrix : str
        "bt709" (HD), "bt601" (SD, JPEG) or "bt2020" (UHD; non-constant luminance). The stream says which.
    range : str
        "limited" (luma from 16 to 235, as most video) or "full" (from 0 to 255, as JPEG).
    siting : str
        The place of chroma among the luma that shares it, by FFmpeg's names of chroma locations: "left", on the first
        column and between the rows (MPEG-2, H.264, most video); "center", between both (JPEG, MPEG-1); "topleft", on
        the first of both (much of UHD).
    width, height : int, optional
        The picture's size; by default that of the first plane, which a buffer does not tell.

    Raises
    ------
    BindingError
        For another format, matrix or range, or another number of planes. Whether the planes fit is known when the
        picture is bound.

    Examples
    --------
    >>> luma, chroma = np.zeros((48, 64), np.uint8), np.full((24, 32, 2), 128, np.uint8)
    >>> fb.YuvPicture([luma, chroma], format="nv12", matrix="bt709", range="limited")
    <YuvPicture: nv12, bt709, limited range>
    """

    def __init__(
        self,
        planes: Sequence[Any],
        *,
        format: str = "nv12",
        matrix: YuvMatrix = "bt709",
        range: YuvRange = "limited",
        siting: YuvSiting = "left",
        width: int | None = None,
        height: int | None = None,
    ) -> None:
        self.planes, self.format = tuple(planes), format.removesuffix("le")
        self.matrix: YuvMatrix = matrix
        self.range: YuvRange = range
        self.siting: YuvSiting = siting
        self.width, self.height = width, height
        self.described = PlanarFormat(self.format, matrix, range, siting, width or 0, height or 0)
        """Everything but the planes themselves. Two pictures that are equal in this differ only in their planes."""
        self.decided: list[Any] = []
        """A cache: the bindings of the models that read it last, the newest first. See delegate/run/bindings.py."""
        if self.format not in YUV_FORMATS:
            raise BindingError(f"a YuvPicture has no format '{format}': it has {', '.join(YUV_FORMATS)}")
        for given, (what, known) in zip((matrix, range, siting), _KNOWN.items(), strict=True):
            if given not in known:
                raise BindingError(f"a YuvPicture has no {what} '{given}': it has {', '.join(known)}")
        count = 1 + len(self.layout.chroma)
        if len(self.planes) != count:
            raise BindingError(f"{self.format} has {count} planes, and {len(self.planes)} were given")
        if (width is None) != (height is None) or (width is not None and min(width, height or 0) < 1):
            raise BindingError(f"a YuvPicture of {width}x{height} pixels is impossible: give both sizes, or none")

    @staticmethod
    def from_frame(frame: Any) -> YuvPicture:
        """Describe a frame of PyAV, with the matrix and the range that its stream says.

        Video that does not say has the limited range, and BT.709 from 720 rows on, else BT.601. Chroma's siting is
        "center" if the format is JPEG's (yuvj420p), else "left": PyAV does not tell more. A frame that a GPU
        decoded (``frame.format.name == "cuda"``) is bound to models with the backend "cuda".

        Parameters
        ----------
        frame : av.VideoFrame
            The frame.

        Returns
        -------
        YuvPicture
            The picture, with the frame's planes.

        Raises
        ------
        BindingError
            If the frame has another format (``frame.reformat(format="yuv420p")`` converts it) or another matrix.

        Examples
        --------
        >>> import av
        >>> fb.YuvPicture.from_frame(av.VideoFrame(64, 48, "yuv420p"))
        <YuvPicture: yuv420p, bt601, limited range>
        """
        format = frame.format.name
        if format == "cuda":
            format = getattr(frame.sw_format, "name", frame.sw_format)
        is_jpeg = format.startswith("yuvj")  # FFmpeg's names of JPEG's formats
        is_full = is_jpeg or frame.color_range == _FULL_RANGE
        number = int(frame.colorspace)
        matrix = _MATRICES.get(number)
        if number == _UNSPECIFIED:
            matrix = "bt709" if frame.height >= _HD_HEIGHT else "bt601"
        if matrix is None:
            raise BindingError(f"a frame of the matrix {number} (ITU-T H.273) cannot be bound: convert it to BT.709")
        return YuvPicture(
            frame.planes, format=format.replace("yuvj", "yuv"), matrix=matrix, range="full" if is_full else "limited",
            siting="center" if is_jpeg else "left", width=frame.width, height=frame.height,
        )  # fmt: skip

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels. Raises BindingError if neither the picture nor its first plane tells them."""
        if self.width is not None and self.height is not None:
            return self.width, self.height
        shape: Any = getattr(self.planes[0], "shape", None)
        size: Any = shape[1::-1] if shape is not None else getattr(self.planes[0], "size", None)
        if not isinstance(size, tuple) or len(size) != 2:
            raise BindingError(f"{self} does not tell its size: give width and height")
        return int(size[0]), int(size[1])

    @property
    def colours(self) -> YuvColours:
        """The colours that its numbers stand for."""
        return self.layout.colours(self.matrix, self.range)

    @property
    def layout(self) -> YuvFormat:
        """The facts about its format."""
        return YUV_FORMATS[self.format]

    def __repr__(self) -> str:
        return f"<YuvPicture: {self.format}, {self.matrix}, {self.range} range>"


def first_plane(native: Any) -> Any:
    """The first plane of a picture of video; any other object as it is."""
    return native.planes[0] if isinstance(native, YuvPicture) else native
