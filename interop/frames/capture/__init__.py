"""Frames on their way in: cameras and files, decoded, handed over and uploaded as GL textures."""
