"""CUDA: context, arrays and the device."""
