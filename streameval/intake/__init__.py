"""Input of an evaluator: raw arguments become validated events and batches.

Behind this package labels, scores and weights are canonical. New labels are
registered only after the whole call was validated, so a rejected call changes
nothing.
"""

from streameval.intake.binary import BinaryIntake
from streameval.intake.classes import ClassIntake

__all__ = ["BinaryIntake", "ClassIntake"]
