"""Videos decoded by PyAV or NVDEC: packets, times, colours and planes of frames."""
