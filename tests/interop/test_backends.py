"""A device is a folder: one that is made up here appears in every list, option and message by its folder alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

import framebind as fb
from framebind.interop.backends import all_backends, backend_named, find_backends
from support.environment import ROOT

SEVENTH = """
from framebind.interop.backends import Backend, FoundDevice
from framebind.interop.loaders import InstalledApi, Loader
from framebind.interop.null.device import NullDevice
from framebind.interop.null import backend as null

LOADER = Loader("libseventh", "apt-get install seventh", lambda: InstalledApi("libseventh", (), 0, "it sleeps"))
BACKEND = Backend(
    name="seventh", short="7th", title="Seventh", rank=15, dialect=None, open=NullDevice,
    context=null.BACKEND.context, is_current=lambda: False, is_present=lambda: True,
    new_context=null.BACKEND.new_context, new_buffer=null.BACKEND.new_buffer, new_texture=null.BACKEND.new_texture,
    owns=lambda native: native == "a sevenfold thing", objects="sevenfold things", needs_context=False,
    gl_objects="copied", decodes=False, loaders=(LOADER,),
    find_devices=lambda: [FoundDevice("Seventh", "Seven of Nine", "7.0")],
    find_gpus=lambda: {bytes(range(16)): (7, "Seven of Nine")}, device_help="Seventh's star",
)
"""
PROGRAM = """
import json
from typer.testing import CliRunner
import framebind as fb
from framebind.__main__ import app
from framebind.interop.discovery.devices import device_of, open_device
from framebind.interop.gl.user_objects import as_gl_object
from framebind.interop.null.device import NullDevice
from framebind.tools.certify.devices import backend_of, open_context, usable_devices

def said(function, *arguments, **named):
    try:
        function(*arguments, **named)
    except fb.FramebindError as error:
        return str(error)

def printed(*arguments):
    return " ".join(CliRunner().invoke(app, arguments, env={"COLUMNS": "300"}).output.replace("│", " ").split())

device = device_of("a sevenfold thing", open_device("gl"))
with open_context("7th"):
    machine = fb.CompatibilityList()
print(json.dumps({
    "where": fb.__file__, "names": [backend.name for backend in fb.list_backends()],
    "option": fb.GpuDelegateOptions(backend="7th").backend, "unknown": said(fb.GpuDelegateOptions, backend="eighth"),
    "devices": [device.name for device in machine.devices], "loaders": [api.api for api in fb.installed_apis()],
    "gpus": [gpu.numbers for gpu in fb.find_gpus()], "best": machine.best_options_for_this_device().backend,
    "certified": usable_devices(), "certified as": backend_of("7th"), "certify": said(open_context, "eighth"),
    "owned": isinstance(device, NullDevice), "refused": said(as_gl_object, object()), "help": printed("diff", "--help"),
    "flag": printed("diff", "face_detection_front", "--backend", "eighth"),
    "doctor": json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)["checks"],
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything that a process says whose framebind has one more folder: links to this one's files, and the folder."""
    package = tmp_path_factory.mktemp("path") / "framebind"
    interop = package / "interop"
    (interop / "seventh").mkdir(parents=True)
    (interop / "seventh" / "__init__.py").touch()
    (interop / "seventh" / "backend.py").write_text(SEVENTH)
    for folder, copy in ((ROOT, package), (ROOT / "interop", interop)):
        for path in folder.iterdir():
            if not path.name.startswith(".") and path.name not in ("interop", "build", "tests"):
                (copy / path.name).symlink_to(path)
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False, env=environment,
        cwd=package.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["where"] == str(package / "__init__.py")
    return said


def test_a_seventh_device_is_listed_by_its_folder(found: dict[str, Any]) -> None:
    assert found["names"] == ["opengl", "seventh", "opencl", "cuda"], "in the order of ranks"
    assert "Seven of Nine" in found["devices"] and "libseventh" in found["loaders"]
    assert {"seventh": 7} in found["gpus"] and found["best"] in ("seventh", "cuda")
    assert found["owned"], "its objects choose its device"


def test_options_and_messages_take_its_name(found: dict[str, Any]) -> None:
    assert found["option"] == "seventh"
    known = "gl, opengl, 7th, seventh, cl, opencl, cuda, auto"
    assert found["unknown"] == f"there is no backend 'eighth': take one of {known}"
    assert f"'eighth' is none of {known}" in found["flag"]
    assert "gl, 7th, cl, cuda or auto" in found["help"] and "Seventh's star" in found["help"]
    assert "sevenfold things need the backend 'seventh', and OpenCL objects" in found["refused"]


def test_doctor_and_certify_know_it(found: dict[str, Any]) -> None:
    rows = {finding["check"]: finding for finding in found["doctor"]}
    assert rows["libseventh"]["found"] == "it sleeps" and rows["libseventh"]["advice"] == "apt-get install seventh"
    assert rows["Seventh"]["found"] == "Seven of Nine, 7.0"
    assert "7th" in found["certified"] and found["certified as"] == "seventh"
    assert "take gl, gles, 7th, cl, cuda, or cl:NAME" in found["certify"]


def test_the_entries_of_this_package() -> None:
    assert [backend.short for backend in fb.list_backends()] == ["gl", "cl", "cuda"]
    assert find_backends("framebind.interop") == all_backends() and all_backends()[-1].name == "null"
    assert all(backend_named(backend.short) is backend_named(backend.name) is backend for backend in all_backends())
    assert [backend.gl_objects for backend in fb.list_backends()].count("own") == 1
