"""OpenGL and OpenGL ES: contexts, objects, kernels, command lists, drawing, windows."""
