"""The file of a task: a ``.task`` bundle or a single model, from a path or as bytes."""

from __future__ import annotations

from collections.abc import Sequence

import framebind as fb

from ...bundles import MOST_BYTES, is_bundle, read_bundle
from .errors import MissingModelError, TaskError
from .options import BaseOptions


def read_asset(options: BaseOptions) -> bytes:
    """The bytes of the task's file.

    Raises
    ------
    FileNotFoundError
        If there is no file at the path.
    ValueError
        If no file is given, or if it is larger than ``MOST_BYTES``.
    """
    if options.model_asset_path:
        try:
            with open(options.model_asset_path, "rb") as file:
                content = file.read(MOST_BYTES + 1)
        except (FileNotFoundError, IsADirectoryError):
            raise MissingModelError(f"Unable to open file at {options.model_asset_path}") from None
    elif options.model_asset_buffer:
        content = bytes(options.model_asset_buffer)
    else:
        raise TaskError(
            "ExternalFile must specify at least one of 'file_content', 'file_name', 'file_pointer_meta' or "
            "'file_descriptor_meta': give BaseOptions(model_asset_path=...) or model_asset_buffer"
        )
    if len(content) > MOST_BYTES:
        raise fb.ModelError(f"the model has more than {MOST_BYTES >> 20} MB: it is no bundle of a task")
    return content


def read_network(options: BaseOptions) -> bytes:
    """The bytes of a task's one network, a ``.tflite`` file. Raises as ``read_asset``, and ModelError for a bundle."""
    content = read_asset(options)
    if is_bundle(content):
        raise fb.ModelError(f"{_name(options)} is a bundle: this task takes one network, a .tflite file")
    return content


def read_files(options: BaseOptions, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, bytes]:
    """The files of the task's bundle, as ``read_bundle`` gives them. Its errors name the bundle's path here."""
    content = read_asset(options)
    try:
        return read_bundle(content, names, optional)
    except fb.ModelError as error:
        raise fb.ModelError(f"{_name(options)}: {error}") from error


def _name(options: BaseOptions) -> str:
    return options.model_asset_path or "model_asset_buffer"
