"""Work on a whole store: check, backup, copy, and the change to other settings."""
