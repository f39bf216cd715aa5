"""The commands of ``python -m framebind``: each is one function, in the file of its name."""
