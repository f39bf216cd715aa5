"""Programs of other libraries that use framebind: a model reads and writes their own textures. Each file is a complete
program: ``python demos/hosts/with_moderngl.py`` runs it from any folder, once framebind and the library are installed.
The library makes window, context and textures, draws a moving photograph into one of them in each frame, and shows the
other, into which a model has painted it. Programs of CUDA libraries have arrays instead of textures, and no window.
docs/programs.md lists them all.
"""
