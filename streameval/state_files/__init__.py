"""The written form of an evaluator: versioned, checksummed, and validated when it is read."""
