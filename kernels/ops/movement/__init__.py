"""Operators that move values without computing new ones, and those that interpolate."""
