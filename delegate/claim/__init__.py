"""The operators of a model that the GPU runs, and why the others stay on the CPU."""
