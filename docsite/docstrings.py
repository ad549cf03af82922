"""What griffe, which reads the code for the reference, does with this package's docstrings."""

from __future__ import annotations

from typing import Any

import griffe

from docsite.markdown import docstring


class Docstrings(griffe.Extension):
    """Turns roles and examples of docstrings into Markdown, before they are parsed."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Of each object."""
        if obj.docstring is not None:
            obj.docstring.value = docstring(obj.docstring.value)
