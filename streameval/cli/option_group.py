"""Options that several commands share, as the fields of one class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from typing import Any, get_type_hints


def option_group(
    name: str, kind: type[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of commands: one option for each field of a class, in place of a parameter.

    Args:
        name: Of the parameter, which takes an instance.
        kind: A dataclass whose fields are annotated as options and have defaults.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(kind, include_extras=True)
        keyword = Parameter.KEYWORD_ONLY
        added = [
            Parameter(one.name, keyword, default=one.default, annotation=hints[one.name])
            for one in fields(kind)
        ]

        @wraps(command)
        def run(**given: Any) -> None:
            command(**{name: kind(**{option: given.pop(option) for option in hints})}, **given)

        declared = signature(command, eval_str=True)
        parameters: list[Parameter] = []
        for parameter in declared.parameters.values():
            parameters += added if parameter.name == name else [parameter]
        # Typer reads the options of a command from these.
        run.__dict__["__signature__"] = declared.replace(parameters=parameters)
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate
