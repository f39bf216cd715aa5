"""Cameras, files and streams read frame by frame, as GL textures or as planes."""
