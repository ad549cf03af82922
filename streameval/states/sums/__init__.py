"""Exact sums: fixed-point numbers, weighted sums and the logarithm of log loss."""
