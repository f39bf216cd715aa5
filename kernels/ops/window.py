"""Sliding windows: padding, strides and dilations as convolutions and poolings share them.

Semantics: TensorFlow Lite's ComputePaddingHeightWidth. SAME pads so that the output has ceil(size / stride) pixels, the
smaller half of the padding first; VALID pads nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..operation import TfliteNode, Unsupported

SAME, VALID = 0, 1


@dataclass(frozen=True)
class Window:
    """Kernel size, strides and dilations as (height, width), the padding scheme, and padding merged from PAD operators.

    ``extra`` is (top, bottom, left, right) pixels added by a merged PAD or MIRROR_PAD before the scheme applies;
    ``mode`` is their content: "zero" or "reflect".
    """

    size: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int] = (1, 1)
    padding: int = SAME
    extra: tuple[int, int, int, int] = (0, 0, 0, 0)
    mode: str = "zero"

    def __post_init__(self) -> None:
        if min(*self.size, *self.strides, *self.dilations) < 1:
            raise Unsupported(
                f"kernel {self.size}, strides {self.strides} and dilations {self.dilations} must be positive"
            )
        if self.padding not in (SAME, VALID):
            raise Unsupported(f"padding scheme {self.padding} is unknown")

    def _axis(self, axis: int, size: int) -> tuple[int, int]:
        """Output size and padding before the first pixel, along axis 0 (height) or 1 (width) of ``size`` pixels."""
        before, after = self.extra[2 * axis : 2 * axis + 2]
        padded = size + before + after
        reach = (self.size[axis] - 1) * self.dilations[axis] + 1
        if self.padding == VALID:
            return (padded - reach) // self.strides[axis] + 1, before
        count = -(-padded // self.strides[axis])
        total = max(0, (count - 1) * self.strides[axis] + reach - padded)
        return count, before + total // 2

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """The height and width of the output. Raises ValueError if the window is larger than the padded input."""
        sizes = self._axis(0, height)[0], self._axis(1, width)[0]
        if min(sizes) < 1:
            raise ValueError(f"a {self.size} window does not fit into {height}x{width} pixels")
        return sizes

    def reach(self, rows: int, columns: int) -> tuple[int, int]:
        """The width and height of the input pixels that ``rows`` x ``columns`` outputs read."""
        sizes = zip((rows, columns), self.size, self.strides, self.dilations, strict=True)
        height, width = ((count - 1) * stride + (taps - 1) * dilation + 1 for count, taps, stride, dilation in sizes)
        return width, height

    def clipped(self, height: int, width: int) -> dict[str, int | float]:
        """``constants`` without the rows and columns of the window that are never over the input of this size.

        A file may declare a window of two thousand million pixels; a GPU would loop over it until it is reset. This is
        for windows without dilation, in kernels that skip the pixels outside the input.
        """
        constants = self.constants(height, width)
        outputs = self.output_size(height, width)
        for axis, size, side, padding in ((0, height, "KERNEL_H", "PAD_TOP"), (1, width, "KERNEL_W", "PAD_LEFT")):
            before = int(constants[padding])
            first = max(0, before - (outputs[axis] - 1) * self.strides[axis])
            constants[side] = min(self.size[axis], before + size) - first
            constants[padding] = before - first
        return constants

    def constants(self, height: int, width: int) -> dict[str, int | float]:
        """The constants by which kernels know the window, for an input of this size."""
        top, left = self._axis(0, height)[1], self._axis(1, width)[1]
        rows, columns = self.output_size(height, width)
        reach_y = (rows - 1) * self.strides[0] + (self.size[0] - 1) * self.dilations[0] - top
        reach_x = (columns - 1) * self.strides[1] + (self.size[1] - 1) * self.dilations[1] - left
        padded = top > 0 or left > 0 or reach_y >= height or reach_x >= width
        return {
            "KERNEL_H": self.size[0], "KERNEL_W": self.size[1],
            "STRIDE_Y": self.strides[0], "STRIDE_X": self.strides[1],
            "DILATION_Y": self.dilations[0], "DILATION_X": self.dilations[1],
            "PAD_TOP": top, "PAD_LEFT": left,
            "PADDED": int(padded), "REFLECT": int(padded and self.mode == "reflect"),
        }  # fmt: skip


def dilated_window(node: TfliteNode, size: tuple[int, int]) -> Window:
    """The window of that size with the strides, dilations and padding of a node's options."""
    options = node.options
    strides, dilations = (options.StrideH(), options.StrideW()), (options.DilationHFactor(), options.DilationWFactor())
    return Window(size, strides, dilations, options.Padding())
