"""Readers of a run: Prometheus, JSON, and a page; none touches a state."""
