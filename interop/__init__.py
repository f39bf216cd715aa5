"""GPU contexts, devices, buffers and textures; sharing and sync between APIs; cameras, files and windows."""
