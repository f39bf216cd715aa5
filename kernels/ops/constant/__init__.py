"""Operators whose result is known once the model is read."""
