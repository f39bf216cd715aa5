"""The OpenGL device: kernels, command lists, barriers and fences."""
