"""The configuration of a run: settings, checks and secrets."""
