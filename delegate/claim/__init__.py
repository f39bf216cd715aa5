"""The operators of a model that the GPU runs, and the reasons why the others stay on the CPU."""
