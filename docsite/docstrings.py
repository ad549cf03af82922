"""What griffe, which reads the code for the reference, does with this package's docstrings."""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

import griffe

from docsite.markdown import docstring


class Docstrings(griffe.Extension):
    """Turns roles and examples of docstrings into Markdown, before they are parsed.

    Functions that are made from a table (``f1 = class_metric(F1)``) and classes that are chosen
    when they are imported are assignments in the source; they get the docstring of their value, as
    do functions whose decorator writes it.
    """

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Of each object."""
        made = obj.is_attribute and "value" in vars(obj) and obj.value
        if obj.docstring is None and (made or (obj.is_function and obj.decorators)):
            self._of_value(obj)
        if obj.docstring is not None:
            obj.docstring.value = docstring(obj.docstring.value)

    @staticmethod
    def _of_value(obj: Any) -> None:
        if not obj.path.startswith(("streameval.metrics.", "streameval.states.score_index.")):
            return
        try:
            value = pkgutil.resolve_name(obj.path)
        except (ImportError, AttributeError):
            return
        text = inspect.getdoc(value)
        if not (inspect.isfunction(value) or inspect.isclass(value)) or not text:
            return
        if obj.is_attribute and inspect.isfunction(value):
            text = f"```python\n{value.__name__}{inspect.signature(value)}\n```\n\n{text}"
        obj.docstring = griffe.Docstring(
            text, parent=obj, lineno=obj.lineno, endlineno=obj.endlineno
        )
