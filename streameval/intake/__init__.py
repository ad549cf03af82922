"""Validation of an evaluator's arguments: raw values become canonical events and batches.

The states trust what is validated here. New labels are added to the known ones
only after the event or batch was counted, so a refused call changes nothing.
"""

from streameval.intake.binary import BinaryIntake
from streameval.intake.classes import ClassIntake

__all__ = ["BinaryIntake", "ClassIntake"]
