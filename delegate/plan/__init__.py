"""Places of tensors, and the steps of a program."""
