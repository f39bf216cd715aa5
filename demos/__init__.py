"""Programs that a person runs: ``framebind demo NAME``.

A demo is a file in this folder with a ``command``, for a task of ``framebind.video.tasks`` with options of its own.
Other tasks are demos without a file. ``tools/player`` runs demos in a window, ``hosts/`` has examples in the GL
contexts of other libraries.
"""
