"""Programs that a person runs: demos, and the command line.

A demo is a file in this folder. ``player/`` runs demos, ``vision/`` is their arithmetic, ``commands/`` the command
line, ``hosts/`` has examples in the GL contexts of other libraries.
"""
