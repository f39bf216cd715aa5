"""Inputs of models that are timed and compared: their shapes and values, by name, as in TFLite's benchmark_model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

import framebind as fb

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Details = list[dict[str, Any]]
Draw = Callable[[dict[str, Any], np.random.Generator], Array]
"""Draws random values of an input from LiteRT's details of it."""


@dataclass(frozen=True, kw_only=True)
class InputFlags:
    """The options of the command line that describe a model's inputs."""

    input_shape: Annotated[
        list[str], typer.Option(metavar="NAME:SHAPE", help="An input's shape, x:1,224,224,3; once for each.")
    ] = field(default_factory=list)
    input_layer: Annotated[str, typer.Option(metavar="NAMES", help="benchmark_model's form of it: a,b with ...")] = ""
    input_layer_shape: Annotated[str, typer.Option(metavar="SHAPES", help="... their shapes: 1,224,224,3:1,20.")] = ""
    input_layer_value_range: Annotated[
        str, typer.Option(metavar="RANGES", help="... and the least and greatest value of integers: a,0,9:b,1,2.")
    ] = ""
    input_file: Annotated[
        list[str],
        typer.Option(
            metavar="NAME:FILE",
            help="An input's values: a .npy file, or the bytes of its elements; several with commas between.",
        ),
    ] = field(default_factory=list)

    def read(self, signature: str = "") -> Inputs:
        """The inputs that these options describe. Raises typer.BadParameter if they cannot be read."""
        shapes = dict(_shape_of(text) for text in self.input_shape)
        names = [name for name in self.input_layer.split(",") if name]
        given = [text for text in self.input_layer_shape.split(":") if text]
        if len(names) != len(given):
            raise typer.BadParameter(
                f"--input-layer has {len(names)} names and --input-layer-shape {len(given)} shapes: give one for each"
            )
        shapes |= {name: _sizes(text) for name, text in zip(names, given, strict=True)}
        files = dict(_file_of(text) for many in self.input_file for text in many.split(",") if text)
        ranges = dict(_range_of(text) for text in self.input_layer_value_range.split(":") if text)
        return Inputs(shapes, files, signature, ranges, tuple(names))


def _shape_of(text: str) -> tuple[str, Shape]:
    name, colon, sizes = text.rpartition(":")
    if not colon or not name:
        raise typer.BadParameter(
            f"'{text}' is no NAME:SHAPE, for instance image:1,224,224,3", param_hint="--input-shape"
        )
    return name, _sizes(sizes)


def _sizes(text: str) -> Shape:
    sizes = text.split(",")
    if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise typer.BadParameter(f"'{text}' is no shape: give sizes with commas between, for instance 1,224,224,3")
    return tuple(int(size) for size in sizes)


def _range_of(text: str) -> tuple[str, tuple[int, int]]:
    words = text.split(",")
    if len(words) != 3 or not all(re.fullmatch(r"-?\d+", word) for word in words[1:]) or int(words[1]) > int(words[2]):
        raise typer.BadParameter(
            f"'{text}' is no NAME,LEAST,GREATEST, for instance tokens,0,255", param_hint="--input-layer-value-range"
        )
    return words[0], (int(words[1]), int(words[2]))


def _file_of(text: str) -> tuple[str, Path]:
    name, colon, file = text.rpartition(":")  # names such as image:0 are common
    if not colon or not name or not file:
        raise typer.BadParameter(f"'{text}' is no NAME:FILE, for instance image:frame.npy", param_hint="--input-file")
    return name.replace("::", ":"), Path(file)  # benchmark_model's form of a colon in a name


@dataclass(frozen=True)
class Inputs:
    """Shapes, files and ranges of a model's inputs, by name; inputs without a file have random values.

    ``signature`` is the signature that is run; "" for the model itself. Then names are those of its arguments.
    ``ranges`` are the least and the greatest value of integers. ``layers`` are names for the inputs in their order.
    """

    shapes: Mapping[str, Shape] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    signature: str = ""
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    layers: tuple[str, ...] = ()

    def fitted(self, interpreter: fb.Interpreter) -> Inputs:
        """Give the model's inputs their shapes, before they are allocated. Raises ModelError for unknown names.

        The result has the model's own names: as in benchmark_model, those of ``layers`` may be others.
        """
        if self.signature:
            signatures: dict[str, Any] = interpreter.get_signature_list()
            if self.signature not in signatures:
                known = ", ".join(signatures) or "none"
                raise fb.ModelError(f"the model has no signature '{self.signature}'; its signatures: {known}")
            return self  # its runner resizes them to the values
        details: Details = interpreter.get_input_details()
        by_name = {detail["name"]: detail for detail in details}
        own = self if set(self.layers) <= set(by_name) else self._renamed(list(by_name))
        own._check_names(list(by_name))
        for name, shape in own.shapes.items():
            interpreter.resize_tensor_input(by_name[name]["index"], list(shape))
        return own

    def _renamed(self, names: Sequence[str]) -> Inputs:
        """The inputs under the model's names, which ``layers`` stand for in their order if there are as many."""
        if len(names) != len(self.layers):
            return self
        named = dict(zip(self.layers, names, strict=True))
        shapes, files, ranges = (
            {named.get(name, name): value for name, value in each.items()}
            for each in (self.shapes, self.files, self.ranges)
        )
        return replace(self, shapes=shapes, files=files, ranges=ranges, layers=())

    def _check_names(self, names: Sequence[str]) -> None:
        for name in (*self.shapes, *self.files, *self.ranges):
            if name not in names:
                raise fb.ModelError(f"the model has no input '{name}'; its inputs: {', '.join(names)}")

    def gives(self, detail: dict[str, Any]) -> bool:
        """True if an input's values come from a file or a range."""
        return detail["name"] in self.files or detail["name"] in self.ranges

    def values(self, detail: dict[str, Any], random: np.random.Generator, otherwise: Draw | None = None) -> Array:
        """The values of an input: those of its file, or random ones, which ``otherwise`` draws."""
        name = detail["name"]
        if name in self.files:
            return _read(self.files[name], detail)
        if name in self.ranges:
            return _between(*self.ranges[name], detail, random)
        return (otherwise or random_input)(detail, random)

    def arguments(self, runner: Any, random: np.random.Generator) -> dict[str, Array]:
        """The values of a signature's arguments."""
        details: dict[str, dict[str, Any]] = runner.get_input_details()
        self._check_names(list(details))
        return {
            name: self.values(detail | {"name": name, "shape": self.shapes.get(name, detail["shape"])}, random)
            for name, detail in details.items()
        }


def _read(path: Path, detail: dict[str, Any]) -> Array:
    """The values of a file, in an input's shape. Raises ModelError if they do not fit."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    try:
        values = np.load(path, allow_pickle=False) if path.suffix == ".npy" else np.fromfile(path, dtype)
    except (OSError, ValueError) as error:
        raise fb.ModelError(f"the values of input '{detail['name']}' cannot be read from '{path}': {error}") from error
    if values.size != np.prod(shape, dtype=int) or values.dtype != dtype:
        raise fb.ModelError(
            f"'{path}' has {values.size} values of {values.dtype}; input '{detail['name']}' takes "
            f"{np.prod(shape, dtype=int)} of {dtype}"
        )
    return values.reshape(shape)


def _between(least: int, greatest: int, detail: dict[str, Any], random: np.random.Generator) -> Array:
    """Random integers. Raises ModelError for an input that has none, or not these."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind not in "iu" or least < np.iinfo(dtype).min or greatest > np.iinfo(dtype).max:
        raise fb.ModelError(
            f"the range {least} to {greatest} is one of integers; input '{detail['name']}' takes {dtype}"
        )
    return random.integers(least, greatest, shape, dtype, endpoint=True)


def random_input(detail: dict[str, Any], random: np.random.Generator) -> Array:
    """Random values as benchmark_model's: floats from -0.5 to 0.5, booleans, integers from 0 to 99 or of 8 bits."""
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return random.uniform(-0.5, 0.5, shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    low, high = {"int8": (-127, 128), "uint8": (0, 255)}.get(dtype.name, (0, 100))
    return random.integers(low, high, shape).astype(dtype)


def gaussian_input(detail: dict[str, Any], random: np.random.Generator) -> Array:
    """Random values as inference_diff's: a Gaussian around the middle of the type's range.

    Its standard deviation is a sixth of the range; values beyond the range are clipped.
    """
    shape, dtype = tuple(int(n) for n in detail["shape"]), np.dtype(detail["dtype"])
    values = np.clip(random.normal(0.0, 1 / 3, shape), -1.0, 1.0)
    if dtype.kind == "f":
        return values.astype(dtype)
    if dtype.kind == "b":
        return values > 0
    limits = np.iinfo(dtype)
    low, high = (limits.min, limits.max) if limits.bits == 8 else (0, 99)  # indices stay small
    return np.rint(low + (values + 1) / 2 * (high - low)).astype(dtype)
