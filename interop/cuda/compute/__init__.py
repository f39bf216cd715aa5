"""The CUDA device: kernels, command lists, fences."""
