"""Access to tensors that are pictures in planes: rows of bytes or of 16-bit numbers in buffers, or textures.

Each plane is an argument of its own; its TEXEL macro reads a pixel. The picture's READ samples every plane and makes
one value of the samples: it converts luma and chroma to RGB, puts channels in order, and applies mean and std.
"""

from __future__ import annotations

from ..views import Plane, PlanePicture, plane_name
from .dialect import Dialect
from .macro import SLICE, Macro, literal
from .pictures import pixel_place, sampled_value
from .source import Argument, Buffer


def texel_read(argument: Argument, buffer: Buffer | None, dialect: Dialect) -> Macro:
    """The macro TEXEL of a plane: the pixel in a column and a row as a float4. The plane's lanes come first, the others
    are zeros.
    """
    view = argument.view
    assert isinstance(view, Plane)
    name, params = f"TEXEL_{argument.name}", ("x_", "y_")
    if buffer is None:
        return Macro(name, params, f"FETCH({argument.name}_image, x_, y_)")
    place = f"sample_number({_parameter(argument.picture, argument.number)}, x_, y_, {view.step})"
    first = f"{argument.name}_offset + {place}"
    lanes = [dialect.load_sample(argument, buffer, f"{first} + {lane}") for lane in range(view.lanes)]
    return Macro(name, params, f"F4V({', '.join([*lanes, *['0.0f'] * (4 - view.lanes)])})")


def plane_order_function(argument: Argument) -> str:
    """The text of a function that computes the tensor's value from the values of the planes."""
    view = _view(argument)
    values = [f"p{number}.{lane}" for number, plane in enumerate(view.planes) for lane in "xyzw"[: plane.lanes]]
    if view.colours is None:
        texel, body = dict(zip("rgba", values, strict=False)), ""
    else:
        products = [
            " + ".join(
                [*(f"{literal(factor)} * {value}" for factor, value in zip(row, values, strict=False)), literal(row[3])]
            )
            for row in view.colours.rows()
        ]
        body = f"float4 rgb = clamp(F4V({', '.join(products)}, 0.0f), F4(0.0f), F4(1.0f)); "
        texel = {"r": "rgb.x", "g": "rgb.y", "b": "rgb.z", "a": "1.0f"}
    lanes = [texel[channel] for channel in view.order] + ["0.0f"] * (4 - len(view.order))
    parameters = ", ".join(f"float4 p{number}" for number in range(len(view.planes)))
    return f"float4 order_{argument.name}({parameters}) {{ {body}return F4V({', '.join(lanes)}); }}"


def plane_picture_read(argument: Argument, name: str) -> Macro:
    """The macro ``name``, which reads a pixel of the tensor."""
    values = [_sampled(argument, number) for number in range(len(_view(argument).planes))]
    texel = f"order_{argument.name}({', '.join(values)})"
    return Macro(name, SLICE, sampled_value(argument, texel))


def _sampled(argument: Argument, number: int) -> str:
    """The value of a plane at pixel (y_, x_) of the tensor: its nearest pixel, or a mix of four."""
    view, texel = _view(argument), f"TEXEL_{plane_name(argument.name, number)}"
    plane, size = view.planes[number], _parameter(argument.name, number)
    pixel = ", ".join(pixel_place(argument))
    x = _place(f"{argument.name}_parameter0", pixel, plane.columns, first=plane.left)
    y = _place(f"{argument.name}_parameter1", pixel, plane.rows, first=plane.top)
    width, height = f"{size}.x", f"{size}.y"
    if view.sampling == "exact" and plane.columns == plane.rows == 1:
        return f"{texel}(texel_at({x}, {width}), texel_at({y}, {height}))"
    columns = f"texel_before({x}, {width})", f"texel_after({x}, {width})"
    rows = f"texel_before({y}, {height})", f"texel_after({y}, {height})"
    corners = [f"{texel}({column}, {row})" for row in rows for column in columns]
    return f"mix_texels({', '.join(corners)}, texel_part({x}), texel_part({y}))"


def _place(row: str, pixel: str, shared: int, *, first: bool) -> str:
    """The position of a tensor's pixel along one axis of a plane, in pixels of the plane. ``row`` is a row of the
    affine map of ``pixel``, x and y.

    Each pixel of the plane is shared by ``shared`` pixels of the picture. It lies on the first of them if ``first``,
    else in the middle.
    """
    place = f"picture_position({row}, {pixel})"
    addend = (0.5 - 0.5 / shared) if first else 0.0
    return place if shared == 1 else f"({place} * {literal(1 / shared)} + {literal(addend)})"


def _parameter(picture: str, number: int) -> str:
    """The float4 of a plane: see kernels/views.py: plane_parameters."""
    return f"{picture}_parameter{4 + number}"


def _view(argument: Argument) -> PlanePicture:
    assert isinstance(argument.view, PlanePicture)
    return argument.view
