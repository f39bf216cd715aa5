"""Frames on their way out: drawn, shown in a window, read back and written to files."""
