"""Sources of records: files, posts and Kafka topics."""
