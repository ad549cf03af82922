"""What a run keeps on disk, in one SQLite file and one transaction a checkpoint."""
