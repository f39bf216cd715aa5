"""Attention, which a pass makes from products of matrices and a softmax."""
