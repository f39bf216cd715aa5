"""Whole videos through a model in many processes: of this machine, one per GPU, or of a cluster."""
