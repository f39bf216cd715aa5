"""Operators on volumes: tensors of batch, depth, height, width and channels."""
