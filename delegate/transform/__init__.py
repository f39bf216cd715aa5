"""Passes over the graph of a partition."""
