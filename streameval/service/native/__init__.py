"""The compiled table of a join's entries, where it was built; the portable code has a dict."""
