"""``python -m framebind doctor``: checks the machine, and says what to install."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Collection, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Literal

import typer

import framebind as fb

from ...video.apis import GL
from ...video.models import BUNDLED, SHARED, cache_folder
from ..common.output import AsJson, add_row, make_table, print_json, print_line, print_table

State = Literal["ok", "warning", "missing"]
STYLES: dict[State, str] = {"ok": "", "warning": "yellow", "missing": "red"}
EXTRAS = {
    "cuda": "the backend 'cuda'",
    "parquet": "process --save parquet",
    "supervision": "to_detections and to_key_points",
    "remote": "videos and results behind URLs",
    "ray": "process --ray",
    "browser": "cameras in browsers",
    "demos": "styles of demo style_transfer --model style_transfer_f16_384",
    "hosts": "demos/hosts",
    "evaluate": "evaluate coco",
    "plot": "benchmark --plot, diff --plot and inspect --graph",
}
"""Extras of pyproject.toml, and the features that need them."""
LOADERS = {loader.name: loader for backend in fb.list_backends() for loader in backend.loaders}
"""Loaders by name: each has the packages with it and with a driver that runs on any machine."""
VENDORS = {
    "0x10de": (
        "NVIDIA",
        "its driver has OpenGL, OpenCL and Vulkan. Debian: apt-get install nvidia-driver nvidia-opencl-icd. Ubuntu: "
        "ubuntu-drivers install. Fedora with RPM Fusion: dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda. In a "
        "container: --gpus all and NVIDIA_DRIVER_CAPABILITIES=all",
    ),
    "0x1002": (
        "AMD",
        "OpenGL is Mesa's (LIBGL_ALWAYS_SOFTWARE must not be set). OpenCL: Debian, Ubuntu: apt-get install "
        "mesa-opencl-icd; Fedora: dnf install mesa-libOpenCL; and RUSTICL_ENABLE=radeonsi, or ROCm's",
    ),
    "0x8086": (
        "Intel",
        "OpenGL is Mesa's (LIBGL_ALWAYS_SOFTWARE must not be set). OpenCL: Debian, Ubuntu: apt-get install "
        "intel-opencl-icd; Fedora: dnf install intel-compute-runtime",
    ),
}
"""PCI vendors: the name, and the packages with the drivers."""
OPENCV = ("opencv-python", "opencv-contrib-python", "opencv-python-headless", "opencv-contrib-python-headless")
CPU_ADVICE = "no GPU is on the PCI bus: here models run faster without the delegate"


@dataclasses.dataclass(frozen=True)
class Finding:
    """A line of the report: the name of the check, its result, and the next step."""

    check: str
    state: State
    found: str
    advice: str = ""
    optional: bool = False
    """True if models run without this."""


All = Annotated[bool, typer.Option("--all", help="Show a row for what is optional, too.")]


def doctor(every: All = False, as_json: AsJson = False) -> None:
    """Check drivers, devices, sharing, display, cameras, packages and models, and say what to install.

    Exit code 1: no device was found that runs models. Cameras are opened for a moment. What is optional is named below
    the table.

    Example: python -m framebind doctor
    """
    machine = fb.CompatibilityList()
    usable = any(not device.unusable for device in machine.devices)
    findings = [
        *_packages(), *_graphics_cards(), *_apis(machine), *_sharing(machine), _between_processes(), _display(),
        *_cameras(fb.video.list_cameras()), *_virtual_cameras(fb.video.list_virtual_cameras()), *_extras(), _models(),
    ]  # fmt: skip
    if usable:
        apis = {*LOADERS, *(device.api for device in machine.devices)}
        findings = [_with_other_api(finding, apis) for finding in findings]
    best = machine.best_options_for_this_device()
    if as_json:
        print_json({"usable": usable, "checks": [dataclasses.asdict(finding) for finding in findings]})
    else:
        way = f"with {best.backend}" if best.backend else f"on the CPU, with num_threads={best.num_threads}"
        print_line(f"Run models {way}: {best.reason}.")
        _print(findings, every=every)
    if not usable:
        raise typer.Exit(1)


def _print(findings: list[Finding], *, every: bool) -> None:
    """Print a row for each finding, but one line for the optional ones unless ``every`` one is wanted."""
    table = make_table("Checks", "", "check", "found", "what to do", lines=True)
    for finding in findings:
        if every or not finding.optional:
            cells = (finding.state, finding.check, finding.found, finding.advice)
            add_row(table, *cells, style=STYLES[finding.state])
    print_table(table)
    optional = [] if every else [finding for finding in findings if finding.optional]
    for here, text in ((True, "Optional, and here"), (False, "Optional, and not here")):
        names = dict.fromkeys(finding.check for finding in optional if (finding.state == "ok") is here)
        if names:
            print_line(f"{text}: {', '.join(names)}.")
    if optional:
        print_line("--all says what each of these is for, and how to install it.")


def _with_other_api(finding: Finding, apis: set[str]) -> Finding:
    """The finding; if it is that an API is missing, it is optional, as another API runs models."""
    if finding.check in apis and finding.state == "missing":
        return dataclasses.replace(finding, optional=True)
    return finding


# Software -------------------------------------------------------------------------------------------------------------


def _packages() -> Iterator[Finding]:
    """The packages that framebind needs. All are installed, or framebind could not have been imported."""
    needed = ("ai-edge-litert", "numpy", "PyOpenGL", "pyopencl", "glfw", "av")
    versions = [f"{name} {_version(name) or 'of unknown version'}" for name in needed]
    yield Finding("packages", "ok", f"Python {sys.version.split()[0]}, {', '.join(versions)}")
    yield _opencv()


def _opencv() -> Finding:
    """The builds of OpenCV: one is needed, two overwrite each other, and some load the libraries of a display."""
    builds = [f"{name} {version}" for name in OPENCV if (version := _version(name))]
    found = ", ".join(builds) or "not from a wheel"
    try:
        import_module("cv2")
    except ImportError as error:
        advice = "pip install opencv-python; if it does not load: apt-get install libgl1 libglib2.0-0 libxcb1 (Debian, "
        advice += "Ubuntu), or opencv-python-headless in its place"
        return Finding("OpenCV", "missing", f"{found}: {error}", advice)
    if builds[1:]:
        advice = f"they overwrite each other's files: pip uninstall {' '.join(OPENCV)}, then install one"
        return Finding("OpenCV", "warning", found, advice)
    return Finding("OpenCV", "ok", found)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> Iterator[Finding]:
    """The packages of each extra that a user may want: those that are missing, or all."""
    requirements = metadata.requires("framebind") if _version("framebind") else None  # None: run from its source alone
    for extra, use in EXTRAS.items():
        pattern = rf"""([\w.-]+).*extra == ["']{extra}["']"""
        matches = (re.match(pattern, requirement) for requirement in requirements or [])
        packages = [match[1] for match in matches if match and match[1] != "framebind"]
        if packages:
            missing = [package for package in packages if _version(package) is None]
            found = f"without {', '.join(missing)}" if missing else ", ".join(packages)
            advice = f"only for {use}: pip install {' '.join(missing)}" if missing else ""
            state: State = "missing" if missing else "ok"
            yield Finding(f"extra '{extra}'", state, found, advice, optional=True)


def _models() -> Finding:
    given = os.environ.get("FRAMEBIND_MODELS")
    folder = Path(given) if given else SHARED
    if folder.is_dir():
        count = sum(1 for _ in folder.glob("*.tflite"))
        return Finding("models", "ok" if count else "warning", f"{count} in {folder}, {len(BUNDLED)} in the package")
    if given:
        return Finding(
            "models", "missing", f"FRAMEBIND_MODELS is '{given}', which is no folder", "set it to a folder, or unset it"
        )
    where = f"those in the package; others are downloaded to {cache_folder()}"
    return Finding("models", "ok", where, "python -m framebind models lists what can be fetched")


# Drivers and devices --------------------------------------------------------------------------------------------------


def _vendors() -> dict[str, str]:
    """The vendors of the graphics cards on the PCI bus, and the sources of their drivers; empty if not on Linux."""
    found: dict[str, str] = {}
    for path in Path("/sys/bus/pci/devices").glob("*/class"):
        if path.read_text().startswith("0x03"):  # a display controller
            name, hint = VENDORS.get(path.with_name("vendor").read_text().strip(), ("", ""))
            if name:
                found[name] = hint
    return found


def _driver_advice() -> str:
    vendors = _vendors()
    return "; ".join(f"{name}: {hint}" for name, hint in vendors.items()) if vendors else CPU_ADVICE


def _graphics_cards() -> Iterator[Finding]:
    """The GPUs' device files: Linux lets only some users open them."""
    nodes = [*Path("/dev/dri").glob("renderD*"), *Path("/dev").glob("nvidia[0-9]*")]
    for node in sorted(nodes):
        allowed = os.access(node, os.R_OK | os.W_OK)
        advice = "" if allowed else "sudo usermod -aG render,video $USER, and log in again"
        yield Finding("GPU", "ok" if allowed else "missing", f"{node}{'' if allowed else ': no permission'}", advice)
    if not nodes and _vendors():
        advice = f"In a container: --device /dev/dri, or --gpus all. Else a driver is missing: {_driver_advice()}"
        yield Finding("GPU", "missing", f"{', '.join(_vendors())}, without a device file", advice)


def _apis(machine: fb.CompatibilityList) -> Iterator[Finding]:
    """The lines of the loaders, then of the devices, except devices that are missing for a reason that a loader has."""
    installed = fb.installed_apis()
    said = {api.problem for api in installed}
    for api in installed:
        loader = LOADERS[api.api]
        works = [driver.library for driver in api.drivers if not driver.problem]
        found = api.problem or f"devices: {api.devices}"
        found += f"; drivers: {', '.join(works)}" if works else ""
        # A driver may work although its loader does not list it: Mesa without a GPU, for EGL.
        yield Finding(api.api, "missing" if api.problem else "ok", found, loader.packages if api.problem else "")
        for driver in api.drivers:
            if driver.problem and driver.problem != api.problem:  # that line is the one above
                advice = f"install the package that has {driver.library or 'the driver'} again, or delete the file"
                state, advice = ("warning", advice) if loader.has_files else ("missing", loader.packages)
                yield Finding(api.api, state, f"{driver.file}: {driver.problem}", advice)
    yield from _devices(machine, said)


def _devices(machine: fb.CompatibilityList, said: Collection[str]) -> Iterator[Finding]:
    """A line for each device. One is usable if it built a kernel (OpenCL), or made a new enough context (OpenGL)."""
    for device in machine.devices:
        if device.name == "none" and device.unusable in said:
            continue
        if device.unusable:
            found = device.unusable if device.name == "none" else f"{device.name}: {device.unusable}"
            yield Finding(device.api, "missing", found, _driver_advice())
        elif device.software:
            yield Finding(device.api, "warning", f"{device.name}, {device.version}: it is the CPU", _driver_advice())
        else:
            yield Finding(device.api, "ok", f"{device.name}, {device.version}")


def _sharing(machine: fb.CompatibilityList) -> Iterator[Finding]:
    for report in machine.sharing:
        same = {True: "one device", False: "two devices", None: "perhaps two devices"}[report.same_device]
        pair = f"{report.gl} and {report.cl}, {same}"
        if report.strategy is not None:
            yield Finding("sharing", "ok", f"{pair}: {report.strategy}")
        else:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in report.refused.items())
            advice = (
                f"for GL objects use the backend '{GL.name}', or fb.cl.ClContext(device) of the GPU that OpenGL runs on"
            )
            yield Finding("sharing", "warning", f"{pair}, share nothing ({reasons})", advice)


def _between_processes() -> Finding:
    """The way in which textures of OpenGL are shared with other processes, and why it is no better one."""
    check = "between processes"
    try:
        with fb.GlContext.headless(), fb.export_texture(fb.GlTexture(64, 64)) as exported:
            reasons = "; ".join(f"not {road}: {reason}" for road, reason in exported.why_not_better.items())
            found = f"by {exported.road}, {exported.order}{f' ({reasons})' if reasons else ''}"
            return Finding(check, "ok", found, optional=True)
    except fb.DeviceError as error:
        return Finding(check, "missing", str(error), "only for fb.export_texture", optional=True)


# Display and cameras --------------------------------------------------------------------------------------------------


def _display() -> Finding:
    headless = "without a window: demos with --output FILE, programs with fb.GlContext.headless()"
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        advice = f"{headless}. A window needs a desktop session, or xvfb-run"
        return Finding("display", "missing", "neither DISPLAY nor WAYLAND_DISPLAY is set", advice, optional=True)
    try:
        with fb.Window(64, 64, visible=False) as window:
            return Finding("display", "ok", f"a window with {window.context}")
    except fb.DeviceError as error:
        return Finding("display", "missing", str(error), headless)


def _cameras(listed: list[fb.video.Camera]) -> Iterator[Finding]:
    """Open each camera that Linux lists; on other systems, the first one."""
    cameras = [camera for camera in listed if _gives_pictures(camera.index)]
    if sys.platform == "linux" and not cameras:
        advice = "plug one in; in a container: --device /dev/video0. Videos, pictures and 'synthetic' do as well"
        yield Finding("camera", "missing", "there is none", advice, optional=True)
    tried = [(camera.index, camera.name) for camera in cameras] if sys.platform == "linux" else [(0, "the first one")]
    for index, name in tried:
        try:
            with fb.open_source(index) as source:
                width, height = source.size
                yield Finding("camera", "ok", f"{source.name}: {width}x{height}, {source.fps or '?'} frames per second")
        except fb.SourceError as error:
            yield Finding("camera", "missing", f"{name}: {error}", "videos, pictures and 'synthetic' do as well")


def _virtual_cameras(places: list[fb.video.VirtualCameraPlace]) -> Iterator[Finding]:
    """Say where the command ``camera`` can show pictures to other programs."""
    for place in places:
        found, _, advice = place.about.partition(": ")
        state: State = "ok" if place.is_ready else "missing"
        yield Finding(f"virtual camera ({place.address})", state, found, advice, optional=True)


def _gives_pictures(index: int) -> bool:
    """True if a device gives pictures: Linux lists several per camera, and only the first one does."""
    file = Path(f"/sys/class/video4linux/video{index}/index")
    return not file.is_file() or file.read_text().strip() == "0"
