"""OpenCL: contexts, objects, command lists, programs that are kept."""
