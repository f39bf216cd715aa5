"""Access to tensors that are textures: texels are sampled and stored, channels put in order, mean and std applied."""

from __future__ import annotations

from ..views import ENCODED_FORMATS, TEXTURE_CHANNELS, Picture, Sampled, region_name, region_parameter
from .macro import SLICE, Macro
from .source import Argument


def order_function(argument: Argument) -> str:
    """A function that puts a texel's channels in the tensor's order."""
    order = _view(argument).order
    lanes = [f"t.{'xyzw'['rgba'.index(channel)]}" for channel in order] + ["0.0f"] * (4 - len(order))
    return f"float4 order_{argument.name}(float4 t) {{ return F4V({', '.join(lanes)}); }}"


def picture_read(argument: Argument, name: str) -> Macro:
    """The macro ``name``, which reads a pixel of the tensor."""
    given = argument.name
    view = _view(argument)
    place = f"{given}_parameter0, {given}_parameter1, {', '.join(pixel_place(argument))}"
    encode = "true" if view.format in ENCODED_FORMATS else "false"
    texel = f"order_{given}(sample_{view.sampling}({given}_image, {place}, {encode}))"
    return Macro(name, SLICE, sampled_value(argument, texel))


def sampled_value(argument: Argument, texel: str) -> str:
    """The value at a pixel of a sampled tensor: that of ``texel``, or, beyond a padded picture, that of the padding."""
    view, given = argument.view, argument.name
    assert isinstance(view, Sampled)
    if view.region:
        texel = f"region_texel({texel}, {given}_parameter{region_parameter(view)})"
    value = f"({texel} * {given}_parameter2 + {given}_parameter3)"
    if view.whole:  # a byte n is n / 255 as a texel, and 255 times that is not always n
        value = f"RINT({value})"
    if not view.is_padded:
        return value
    place = f"{given}_parameter0, {given}_parameter1, {', '.join(pixel_place(argument))}"
    return f"(is_in_picture({place}) ? {value} : {given}_parameter{argument.quads - 1})"


def pixel_place(argument: Argument) -> tuple[str, str]:
    """The x and y to which a sampled tensor's parameters apply: those of its pixel, or, of a region, those of the
    upright picture's pixel there, which need not be whole.
    """
    view, given = argument.view, argument.name
    assert isinstance(view, Sampled)
    if not view.region:
        return "TO_F(x_)", "TO_F(y_)"
    region = f"{given}_parameter{region_parameter(view)}"
    rows = [f"LOAD4_{region_name(given)}(2 * TO_I({region}.x){second})" for second in ("", " + 1")]
    x, y = (f"region_pixel({row}, {region}, TO_F(x_), TO_F(y_))" for row in rows)
    return x, y


def picture_store(argument: Argument) -> str:
    """The statement that stores ``store_v`` as a texel: std and mean undone, alpha 1 if the tensor has none."""
    view, name = _view(argument), argument.name
    texel = f"(store_v * {name}_parameter2 + {name}_parameter3)"
    if TEXTURE_CHANNELS[view.format] == 4 and len(view.order) == 1:
        channels = [f"{texel}.x"] * 3 + ["1.0f"]
    else:
        channels = [
            f"{texel}.{'xyzw'[view.order.index(c)]}" if c in view.order else "01"[c == "a"] + ".0f" for c in "rgba"
        ]
    place = f"TO_F(x_), TO_F(y_), {name}_parameter0, {name}_parameter1"
    return f"store_texel({name}_image, {place}, F4V({', '.join(channels)}))"


def _view(argument: Argument) -> Picture:
    assert isinstance(argument.view, Picture)
    return argument.view
