"""Predictions and labels of separate records, joined by id."""
