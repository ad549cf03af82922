"""Sources of records: files, HTTP posts, Kafka topics."""
