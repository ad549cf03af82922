"""The HTTP server of a run: pages, a JSON API and Prometheus metrics.

Reads no state: the run publishes an immutable snapshot after each checkpoint, and every
answer is made from the newest one. Requires the extra ``serve``.
"""
