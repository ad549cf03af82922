"""Bytes into columns: what a record may hold, and what is wrong with the others."""
