"""What runs on the GPU: kernel sources and, per operator, the Python that picks and specializes one. Imports nothing of ours."""
