"""Certification: comparison of this machine's devices with LiteRT's CPU kernels, and the models for it."""
