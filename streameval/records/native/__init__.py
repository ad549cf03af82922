"""Compiled readers, where they were built: of CSV without quotes, and of plain JSON records."""
