"""Passes over quantized models: where values are rounded to integers, and where integers are summed."""
