"""The compiled parts, present where they could be built.

Nothing is imported here: :mod:`streameval.states.score_index` chooses between
``streameval.native.native_index`` and the portable index, :mod:`streameval.windows.last` between
``streameval.native.event_ring`` and a deque, :mod:`streameval.stream.join.key_table` between
``streameval.native.native_key_table`` and a dict, :mod:`streameval.lock` between
``streameval.native.native_lock`` and the lock of ``threading``.
"""
