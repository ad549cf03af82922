"""Predictions and labels that come apart and meet by id."""
