"""Passes over quantized models: removal of roundings, and sums of integers."""
