"""The compiled parts, present where they could be built.

Nothing is imported here; each user falls back to a portable form:

- ``native_index``: :mod:`streameval.states.score_index`, or the portable index;
- ``native_confusion``: :mod:`streameval.states.confusion_parts.confusion_cells`, or Python;
- ``native_class_events``: :mod:`streameval.states.class_events`, or Python;
- ``native_lock``: :mod:`streameval.states.lock`, or the lock of ``threading``;
- ``event_ring``: :mod:`streameval.windows.last`, or a deque.
"""
