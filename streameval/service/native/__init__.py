"""Compiled parts of a run, where they were built.

- ``native_key_table``: :mod:`streameval.service.join.entry_store.entry_store`, or a dict;
- ``native_json``: :mod:`streameval.service.decode.fields`, or msgspec, and
  :mod:`streameval.service.sources.followed_file`, or ``bytes.split``.
"""
