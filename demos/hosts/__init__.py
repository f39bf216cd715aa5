"""Programs of other libraries into which framebind is bound: a model reads and writes their own textures.

Each file is a whole program: ``python demos/hosts/with_moderngl.py`` runs it from any folder, once framebind and the
library are installed. The library makes window, context and textures, moves a photograph through one of them in each
frame, and shows the other, in which a model has painted it. Those of CUDA libraries have arrays in place of textures,
and no window. docs/programs.md lists them all.
"""
