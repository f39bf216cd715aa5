"""``python -m framebind demo NAME``."""

from __future__ import annotations

import typer

from .. import classification, detection, landmarks, segmentation, style_transfer

DEMOS = {
    "style_transfer": style_transfer.command,
    "segmentation": segmentation.command,
    "classification": classification.command,
    "detection": detection.command,
    "landmarks": landmarks.command,
}

demo = typer.Typer(
    no_args_is_help=True,
    help="Show what a model makes of a camera, a video or a picture.\n\nExample: python -m framebind demo "
    "style_transfer --camera 0",
)
for name, command in DEMOS.items():
    demo.command(name)(command)
