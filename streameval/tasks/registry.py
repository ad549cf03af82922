"""Registry of tasks: the one list of them that the rest of the package reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from streameval.errors import InputError, shown
from streameval.tasks.binary import BinaryTask
from streameval.tasks.comparison import (
    ComparisonTask,
    NumberComparisonTask,
    SetComparisonTask,
)
from streameval.tasks.multiclass import MulticlassTask
from streameval.tasks.multilabel import MultilabelTask
from streameval.tasks.predictions import ClassPredictionsTask, PredictionsTask
from streameval.tasks.regression import RegressionTask
from streameval.tasks.task import Task

TaskName: TypeAlias = Literal["binary", "multiclass", "multilabel", "regression"] | str
"""The name of a task of an evaluator."""

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        BinaryTask(),
        MulticlassTask(),
        MultilabelTask(),
        RegressionTask(),
        ComparisonTask(),
        SetComparisonTask(),
        NumberComparisonTask(),
        PredictionsTask(),
        ClassPredictionsTask(),
    )
}
"""From the name of each task to its object."""


def task_names() -> tuple[str, ...]:
    """The tasks of evaluators; the models of a comparison have one of them."""
    return tuple(name for name, task in TASKS.items() if task.evaluated)


def measured_tasks() -> tuple[str, ...]:
    """The tasks that have metrics."""
    return tuple(name for name, task in TASKS.items() if task.usual)


def one_of_tasks(names: Iterable[str] | None = None) -> str:
    """The tasks of evaluators, or those of some names, in the words of an error."""
    *first, last = (f'"{name}"' for name in names or task_names())
    return f"{', '.join(first)} or {last}"


def unlabelled_task(task: str) -> str:
    """The name of the task of the same predictions without true labels; raises InputError."""
    name = TASKS[task].unlabelled
    if name is None:
        served = [other for other in task_names() if TASKS[other].unlabelled is not None]
        raise InputError("task", expected=one_of_tasks(served), got=shown(task))
    return name


def likely_task(one_score: object) -> TaskName:
    """The task if none is named: binary with a score or an option of its labels."""
    return BinaryTask.name if one_score else MulticlassTask.name
