"""Bounds on metrics, the states of alerts, and the webhook that posts their transitions."""
