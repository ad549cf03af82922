"""Predictions that wait for a label: in memory, then in segments on disk."""
