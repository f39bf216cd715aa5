"""Charts of models: times, memory, graphs and errors. They need the extra `plot`."""
