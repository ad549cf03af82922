"""Labels written as text: CSV cells, the keys of a JSON object, a command-line option."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from streameval.errors import InputError, shown

LabelType: TypeAlias = Literal["str", "int", "bool"]
LABEL_TYPES: tuple[LabelType, ...] = get_args(LabelType)

# No leading zeros: 007 and 7 are two identifiers. A zero fraction is written by pandas
# for an integer column with missing values.
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.0+)?", re.ASCII)
_TRUTH = {"true": True, "false": False}

_EXPECTED = {"int": "an integer label", "bool": "a label true or false"}


def label_from_text(text: str, label_type: LabelType) -> str | int:
    """The label that a text denotes; raises InputError for a text of another type, or none."""
    if not text:
        raise InputError(
            "label",
            expected="a label",
            got="nothing",
            remedy="this event has no label yet: leave it out",
        )
    if label_type == "str":
        return text
    if label_type == "bool" and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if label_type == "int" and len(text) < 400 and _INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    raise InputError(
        "label",
        expected=f"{_EXPECTED[label_type]}, as the type of the labels is {label_type}",
        got=shown(text),
        remedy='choose the type with label_type="str", "int" or "bool"',
        remedy_code="label_type",
    )


def is_number(text: str) -> bool:
    """Whether a text is a number, of any form that Python reads."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_fraction(text: str) -> bool:
    """Whether a text is a finite number that is not whole: a score rather than a label."""
    try:
        return math.isfinite(number := float(text)) and not number.is_integer()
    except (ValueError, OverflowError):
        return False


def likely_type(texts: Iterable[str]) -> LabelType | None:
    """The narrowest type that fits all of these texts, but empty ones; None if there are none."""
    types: set[Any] = set()
    for text in set(texts):
        if text.lower() in _TRUTH:
            types.add("bool")
        elif _INTEGER.fullmatch(text):
            types.add("int")
        elif text:
            return "str"
    if len(types) > 1:
        return "str"
    return types.pop() if types else None
