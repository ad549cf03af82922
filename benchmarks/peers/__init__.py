"""Peers' own public tests, each call of a metric compared with streameval: ``make peers``."""
