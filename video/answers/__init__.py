"""Answers in a network's outputs: small models run behind it on the GPU, so that only answers are read."""
