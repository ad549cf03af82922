"""Where events come from: files, HTTP posts, Kafka topics."""
