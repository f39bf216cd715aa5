"""Textures that another process reads: memory that both address, and the order of their work on it. Linux only."""
