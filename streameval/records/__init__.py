"""Predictions in files: JSONL, CSV and Parquet, read in bounded memory.

:func:`~streameval.records.input_files.find_sources` turns paths and patterns into
sources; each source gives :class:`~streameval.records.chunk.Chunk` after chunk,
with the records that could not be read beside the columns of those that could.
"""
