"""Programs of other libraries into which framebind is bound: a model reads and writes their own textures.

Each file is a whole program: ``python demos/hosts/with_moderngl.py`` runs it from any folder, once framebind and the
library are installed. The library makes window, context and textures, moves a photograph through one of them in each
frame, and shows the other, in which a model has painted it. docs/programs.md has a picture of each.
"""
