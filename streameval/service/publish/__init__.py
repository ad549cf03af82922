"""Snapshots: what a run publishes after each checkpoint."""
