"""Parts of all tasks: pictures, options, results, files, networks, and the three modes of running."""
