"""Trains the model in ``video/assets``. Run it from a checkout: README.md here says how, and has the figures."""
