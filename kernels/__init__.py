"""What runs on the GPU: kernel sources, and the Python that picks and specializes one per operator."""
