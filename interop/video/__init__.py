"""Frames: from cameras and files to GL textures, and from textures to files."""
