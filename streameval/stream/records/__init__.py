"""Messages to columns: the fields of a record, their checks, and the faults of bad records."""
