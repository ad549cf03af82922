"""The configuration of a run: its settings, how a file becomes them, and what is checked."""
