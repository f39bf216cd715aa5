"""``python -m framebind devices``: lists devices, how they share memory, and cameras."""

from __future__ import annotations

import dataclasses

from rich.table import Table

import framebind as fb

from ..common.output import AsJson, add_row, make_table, print_json, print_line, print_table


def devices(as_json: AsJson = False) -> None:
    """List the devices of OpenGL, OpenCL and CUDA, what GL and OpenCL share, the best options, and the cameras.

    Example: python -m framebind devices --json
    """
    found, cameras = fb.CompatibilityList(), fb.video.list_cameras()
    best = found.best_options_for_this_device()
    if as_json:
        print_json(
            {
                "devices": [dataclasses.asdict(device) for device in found.devices],
                "sharing": [dataclasses.asdict(report) for report in found.sharing],
                "delegate_supported": found.is_delegate_supported_on_this_device(),
                "best_options": dataclasses.asdict(best),
                "cameras": [dataclasses.asdict(camera) for camera in cameras],
            }
        )
        return
    print_table(_device_table(found))
    print_table(_sharing_table(found))
    if cameras:
        table = make_table("Cameras (--camera INDEX)", "index", "name")
        for camera in cameras:
            add_row(table, camera.index, camera.name)
        print_table(table)
    else:
        print_line("No camera is here, as far as the system lists them.")
    advice = (
        f"GpuDelegate with the backend '{best.backend}'"
        if best.backend
        else f"no delegate, and Interpreter(num_threads={best.num_threads})"
    )
    print_line(f"Best here: {advice}: {best.reason}.")


def _device_table(found: fb.CompatibilityList) -> Table:
    table = make_table("Devices", "API", "device", "version", "f16", "usable", lines=True)
    for device in found.devices:
        usable = device.unusable or ("yes, but it is the CPU" if device.software else "yes")
        add_row(table, device.api, device.name, device.version, device.f16, usable)
    return table


def _sharing_table(found: fb.CompatibilityList) -> Table:
    table = make_table("GL objects in models on OpenCL", "OpenGL", "OpenCL", "shared by", "not by", lines=True)
    for report in found.sharing:
        refused = "\n".join(f"{name}: {reason}" for name, reason in report.refused.items())
        add_row(table, report.gl, report.cl, report.strategy or "nothing", refused)
    return table
