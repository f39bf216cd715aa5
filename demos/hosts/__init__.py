"""Worked examples: a model reads and writes the textures of another library's program, in that library's own context.

Each is a whole program of about fifty lines: ``python -m framebind.demos.hosts.with_moderngl`` and so on, after
``pip install`` of the library. The library makes the window, the context and both textures,
and draws; framebind only binds the textures.
"""
