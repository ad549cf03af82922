"""Registry of tasks: the one list of them that the rest of the package reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

from streameval.tasks.binary import BinaryTask
from streameval.tasks.comparison import ComparisonTask
from streameval.tasks.multiclass import MulticlassTask
from streameval.tasks.task import Task

TaskName: TypeAlias = Literal["binary", "multiclass"] | str
"""The name of a task of an evaluator."""

TASKS: dict[str, Task] = {
    task.name: task for task in (BinaryTask(), MulticlassTask(), ComparisonTask())
}
"""From the name of each task to its object."""
