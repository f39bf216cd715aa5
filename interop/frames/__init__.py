"""Frames of videos, cameras and pictures: decoded, read as textures or planes, painted, and written to files."""
