"""Places of tensors, and the steps that follow."""
