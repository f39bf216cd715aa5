"""Operators whose places in a tensor are numbers in another tensor."""
