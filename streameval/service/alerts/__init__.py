"""Alerts: rules over metrics, their states, and the webhook that transitions are posted to."""
