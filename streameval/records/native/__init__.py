"""The compiled reader of CSV, where it was built; used by :mod:`streameval.records.csv_table`."""
