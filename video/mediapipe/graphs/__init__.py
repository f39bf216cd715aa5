"""The calculators as operators: what stands between networks, computed where their outputs are.

Places are in pixels of the picture. A *track* is a row of eight: x and y of a rectangle's middle, width, height, cosine
and sine of its rotation, 1 if there is something to look at (else 0), and one that is unused. A *region* is the row of
``fb.Region`` that shows a network a track, with two numbers in the places that samplers do not read: a, b, c, whether
there is something; d, e, f, and the width by which depths scale.
"""
