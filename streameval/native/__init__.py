"""The compiled score index, present where it could be built.

Nothing is imported here: :mod:`streameval.states.score_index` chooses between
``streameval.native.native_index`` and the portable index.
"""
