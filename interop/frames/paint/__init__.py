"""Marks, text and masks painted on frames: into the planes of a decoder's frame, or over a GL texture."""
