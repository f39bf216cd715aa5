"""From the bytes of a .tflite file to a checked Model."""
