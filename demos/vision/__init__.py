"""Arithmetic of the demos: boxes, regions, filters, labels and masks."""
