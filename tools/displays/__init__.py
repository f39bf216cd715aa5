"""Progress bars and tables of commands that run for long."""
