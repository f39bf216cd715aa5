"""Where tensors lie, and the steps that follow."""
