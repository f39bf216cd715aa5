"""Programs, partitions and bound tensors while a model runs."""
