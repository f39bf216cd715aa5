"""Frames read back from textures and written to videos and pictures."""
