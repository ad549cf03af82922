"""The edge of an evaluator: raw arguments become validated events and batches.

Behind this package labels, scores and weights are canonical. Names of labels
that are new are only remembered once the whole call has proved good, so a
refused call leaves no trace.
"""

from streameval.intake.binary import BinaryIntake
from streameval.intake.classes import ClassIntake

__all__ = ["BinaryIntake", "ClassIntake"]
