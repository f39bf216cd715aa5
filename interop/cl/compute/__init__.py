"""The OpenCL device: command lists, command buffers, barriers and fences."""
