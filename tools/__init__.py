"""The command line: ``python -m framebind COMMAND``."""
