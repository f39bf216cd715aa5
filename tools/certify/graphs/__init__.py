"""Random graphs of operators, written as models and compared with LiteRT's kernels."""
