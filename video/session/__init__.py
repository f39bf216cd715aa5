"""Whole videos through a model: the work on one video, its outputs, and VideoStage."""
