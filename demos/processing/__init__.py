"""Whole videos through a model: inputs, the work on one video, and the record of what is done."""
