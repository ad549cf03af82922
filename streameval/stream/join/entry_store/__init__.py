"""The entries of a label join, in memory and on disk."""
