"""Teaches the model in ``demos/assets``. Run from a checkout: README.md here says how, and has the figures."""
