"""Videos by PyAV: decoded to planes with their times, and encoded with the sound of their source."""
