"""Texts of a stream as label values: any text goes in, one safe line comes out."""

from __future__ import annotations

import hashlib
import unicodedata

__all__ = ["label_text"]

_LONGEST = 120
_NOT_SHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def label_text(text: str) -> str:
    """A text cut to 120 characters, with nothing in it that a terminal or a page would obey.

    Control characters, line ends, marks of writing direction and half surrogates
    become ``\\ufffd``. A text that was changed ends with eight digits of its hash:
    two texts never become one, which Prometheus would refuse the whole scrape for.

    >>> label_text("country=PT")
    'country=PT'
    >>> label_text("a\\nb")
    'a\ufffdb #7e18f737'
    >>> len(label_text("x" * 5000)), label_text("x" * 5000) == label_text("x" * 5001)
    (130, False)
    """
    safe = "".join(
        "\ufffd" if unicodedata.category(letter) in _NOT_SHOWN else letter
        for letter in text[:_LONGEST]
    )
    if safe == text:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{safe} #{digest}"
