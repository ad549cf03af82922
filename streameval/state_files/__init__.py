"""The written form of an evaluator: versioned, checksummed and read without trust."""
