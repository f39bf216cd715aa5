"""A device that computes nothing."""
