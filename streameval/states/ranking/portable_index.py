"""The former name of :mod:`streameval.states.ranking.reference_index`, which pickles name."""

from streameval.states.ranking.reference_index import ReferenceScoreIndex as PortableScoreIndex

__all__ = ["PortableScoreIndex"]
