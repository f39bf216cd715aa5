"""Spectra of signals and pictures, and the parts of their complex numbers."""
