"""LiteRT's C interface: the structures of a TfLiteDelegate, and its callbacks."""
