"""The messages that solutions put out: Protocol Buffers with the fields and numbers of MediaPipe's.

``mp.framework.formats.landmark_pb2`` is this module. Programs print, copy and serialize these messages, and make them
into dictionaries (``google.protobuf.json_format``). They are in a pool of their own, so that MediaPipe can be imported
beside them.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import numpy.typing as npt

_POINT = "float x = 1; float y = 2; float z = 3; float visibility = 4; float presence = 5;"
_BOX = "{0} xmin = 1; {0} ymin = 2; {0} width = 3; {0} height = 4;"
_FIELDS = {
    "Landmark": _POINT,
    "LandmarkList": "repeated Landmark landmark = 1;",
    "NormalizedLandmark": _POINT,
    "NormalizedLandmarkList": "repeated NormalizedLandmark landmark = 1;",
    "Classification": "int32 index = 1; float score = 2; string label = 3; string display_name = 4;",
    "ClassificationList": "repeated Classification classification = 1;",
    "LocationData": """
        Format format = 1; BoundingBox bounding_box = 2; RelativeBoundingBox relative_bounding_box = 3;
        repeated RelativeKeypoint relative_keypoints = 5;
    """,
    "LocationData.BoundingBox": _BOX.format("int32"),
    "LocationData.RelativeBoundingBox": _BOX.format("float"),
    "LocationData.RelativeKeypoint": "float x = 1; float y = 2; string keypoint_label = 3; float score = 4;",
    "Detection": """
        repeated string label = 1; repeated int32 label_id = 2; repeated float score = 3;
        LocationData location_data = 4;
    """,
}
"""Fields of each message, as a .proto file has them."""
_FORMATS = ("GLOBAL", "BOUNDING_BOX", "RELATIVE_BOUNDING_BOX", "MASK")
"""The values of the enumeration LocationData.Format, from 0 on."""


def _add_fields(message: Any, fields: str) -> None:
    for repeated, kind, name, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", fields):
        field = message.field.add(name=name, number=int(number))
        field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
        if kind in ("float", "int32", "string"):
            field.type = getattr(field, f"TYPE_{kind.upper()}")
            field.options.packed = bool(repeated) and kind != "string"
        else:
            field.type = field.TYPE_ENUM if kind == "Format" else field.TYPE_MESSAGE
            field.type_name = kind


@functools.cache
def _classes() -> dict[str, Any]:
    """The classes of messages, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="framebind/solutions.proto", package="mediapipe", syntax="proto2")
    made: dict[str, Any] = {}
    for name, fields in _FIELDS.items():
        above, _, last = name.rpartition(".")
        made[name] = (made[above].nested_type if above else file.message_type).add(name=last)
        _add_fields(made[name], fields)
    formats = made["LocationData"].enum_type.add(name="Format")
    for number, name in enumerate(_FORMATS):
        formats.value.add(name=name, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    # Also those inside others: before protobuf 4.25 a class that nothing holds is collected, and making one crashes.
    found = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"mediapipe.{name}")) for name in _FIELDS}
    for each in found.values():
        each.__module__ = __name__  # where pickle looks for it
    return found


def __getattr__(name: str) -> Any:
    """The class of a message. Protocol Buffers takes 0.1 s to import, and programs with tasks need none."""
    if name in _FIELDS and "." not in name:
        return _classes()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def landmark_list(rows: npt.NDArray[Any]) -> Any:
    """The NormalizedLandmarkList of rows (n, 3, or 4 with visibility) in the picture."""
    return _classes()["NormalizedLandmarkList"].FromString(_serialized(rows))


def world_landmark_list(rows: npt.NDArray[Any]) -> Any:
    """The LandmarkList of rows (n, 3, or 4 with visibility) in metres."""
    return _classes()["LandmarkList"].FromString(_serialized(rows))


def _serialized(rows: npt.NDArray[Any]) -> bytes:
    """The bytes of a list of landmarks, all written at once: a face has 478.

    A landmark is field 1 of the list, with its length; each of its fields is a key (number * 8 + 5) and a float32.
    """
    count, width = rows.shape
    points = np.empty((count, width, 5), np.uint8)
    points[:, :, 0] = np.arange(1, width + 1) * 8 + 5
    points[:, :, 1:] = np.ascontiguousarray(rows, "<f4").view(np.uint8).reshape(count, width, 4)
    heads = np.full((count, 2), (1 * 8 + 2, width * 5), np.uint8)
    return np.hstack([heads, points.reshape(count, -1)]).tobytes()
