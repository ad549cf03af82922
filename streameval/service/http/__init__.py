"""What a run shows: pages, a JSON API and Prometheus metrics, out of snapshots.

Nothing here touches a state. The run publishes an immutable snapshot after each
checkpoint; everything is answered from the newest one. Needs the extra ``serve``.
"""
