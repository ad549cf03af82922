"""The commands behind ``streameval``: evaluate, merge, report, metrics, init."""
