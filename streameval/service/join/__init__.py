"""Joins delayed labels to their predictions."""
