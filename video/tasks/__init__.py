"""The tasks for frames of video: each file finds things in a model's outputs and draws them."""
