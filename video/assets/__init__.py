"""Files that come with the package.

``scripts/training`` trained the model. The photograph is NASA's portrait of Eileen Collins, astronaut, which is in the
public domain. ``scripts/draw_hand.py`` drew the hand.
"""

from pathlib import Path

STYLE_MODEL = Path(__file__).with_name("style_transfer.tflite")
"""The model that paints: one style, pictures of any size whose sides are multiples of 4."""
PHOTOGRAPH = Path(__file__).with_name("astronaut.jpg")
"""A photograph of a person, 512 x 512 pixels."""
HAND_PICTURE = Path(__file__).with_name("hand.jpg")
"""A picture of an open hand, 960 x 720 pixels."""
