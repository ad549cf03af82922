"""Scores in order: the structures behind the exact ROC-AUC."""
