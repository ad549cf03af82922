"""The compiled parts, present where they could be built.

Nothing is imported here: :mod:`streameval.states.score_index` chooses between
``streameval.native.native_index`` and the portable index, and
:mod:`streameval.windows.ring` between ``streameval.native.event_ring`` and a deque.
"""
