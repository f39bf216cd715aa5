"""Frames: from cameras and files to GL textures (``capture``), and from textures to windows and files (``show``)."""
