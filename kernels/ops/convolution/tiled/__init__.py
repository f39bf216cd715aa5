"""Convolutions that copy what their tile reads to local memory, for devices without matrix units."""
