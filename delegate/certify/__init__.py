"""Certification: the library on this machine's devices against LiteRT's CPU kernels, and the models for it."""
