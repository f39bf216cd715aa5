"""Programs that a person runs: ``framebind demo NAME``.

A demo is a file in this folder with a ``command``: its task is in ``framebind.video.tasks``. ``player/`` runs demos
in a window, ``hosts/`` has examples in the GL contexts of other libraries.
"""
