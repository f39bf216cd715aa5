"""Arithmetic of boxes, regions, filters, labels and masks, on the CPU and in GLSL."""
