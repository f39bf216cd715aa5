"""Runs of models that commands time and compare: their inputs, their frames, other engines, all of their tensors."""
