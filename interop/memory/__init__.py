"""Buffers and pictures of every API: their bases, and copies to and from the host."""
