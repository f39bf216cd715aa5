"""Drawing with OpenGL: fragment programs over textures, and windows."""
