"""Which operators of a model the GPU takes, and why the others stay on the CPU."""
