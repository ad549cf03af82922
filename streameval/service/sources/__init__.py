"""Where records come from: files, posts and Kafka topics."""
