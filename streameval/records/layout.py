"""How files are written: formats; of text the delimiter, encoding, header and missing values."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from streameval.errors import InputError, listed, shown
from streameval.records.blocks import Readable
from streameval.records.wording import Wording

Format: TypeAlias = Literal["jsonl", "json", "csv", "tsv", "parquet", "arrow"]
FORMATS: tuple[Format, ...] = get_args(Format)

_NO_BLANKS = (
    "#N/A #NA -1.#IND -1.#QNAN -NaN -nan 1.#IND 1.#QNAN <NA> N/A NA NULL NaN None n/a nan null"
)
USUAL_MISSING = frozenset(["#N/A N/A", *_NO_BLANKS.split()])
"""Cells that ``pandas.read_csv`` reads as missing, beside the empty one."""

_NAMED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_UTF8 = ("utf-8", "utf-8-sig")

# The longer marks first: one of UTF-32 begins as one of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UNMARKED = {"utf-16-le": re.compile(rb"([^\0]\0){2}"), "utf-16-be": re.compile(rb"(\0[^\0]){2}")}


@dataclass(frozen=True, slots=True)
class Layout:
    """How the text files of one call are written; of :func:`text_layout`."""

    delimiter: str | None = None
    """Between the fields of CSV; None: by the format."""
    encoding: str | None = None
    """Of CSV and JSON; None is UTF-8, or what the byte order mark says."""
    header: bool = True
    """Whether the first line of CSV names the columns; otherwise they are 1, 2, 3 …"""
    missing: frozenset[str] | None = None
    """Missing values of CSV, beside the empty cell; None: the usual ones, in labels only."""

    @property
    def missing_labels(self) -> frozenset[str]:
        """Cells that are no label: a class is seldom ``NA``; a slice ``NA`` may be Namibia."""
        return USUAL_MISSING if self.missing is None else self.missing


def text_layout(
    wording: Wording,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    na_values: Iterable[str] | None = None,
) -> Layout:
    r"""The layout that options name; raises InputError."""
    if delimiter is not None:
        text = _NAMED.get(delimiter, delimiter) if isinstance(delimiter, str) else ""
        # A letter or digit, or the marks of quotes and lines, would cut the values.
        cuts = text.isalnum() or text in '"\r\n\0.+-_' or not (text.isprintable() or text == "\t")
        if len(text) != 1 or cuts:
            raise InputError(
                wording.where("delimiter"),
                expected="one character, such as ';', '|' or tab",
                got=shown(delimiter),
            )
        delimiter = text
    missing = None
    if na_values is not None:
        texts = listed(na_values, wording.where("na_values"), "a list of texts")
        if not all(isinstance(text, str) for text in texts):
            raise InputError(
                wording.where("na_values"), expected="a list of texts", got=shown(texts)
            )
        missing = frozenset(texts) - {""}
    return Layout(delimiter, _known_encoding(encoding, wording), header, missing)


def _known_encoding(encoding: str | None, wording: Wording) -> str | None:
    """The name of another encoding than UTF-8; raises InputError for one that is unknown."""
    if encoding is None:
        return None
    try:
        # Refuses what is no encoding of text, such as rot13.
        if b"a,\n" not in "a,\n".encode(encoding).replace(b"\0", b""):
            raise ValueError
        name = codecs.lookup(encoding).name
    except (LookupError, ValueError, TypeError):
        raise InputError(
            wording.where("encoding"),
            expected="an encoding of text, such as latin-1, cp1252, utf-16 or shift_jis",
            got=shown(encoding),
        ) from None
    return None if name in _UTF8 else name


def marked_encoding(head: bytes, source: str) -> str | None:
    """The encoding of a file by its byte order mark, None of UTF-8; raises InputError for UTF-16
    without a mark."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    for encoding, pattern in _UNMARKED.items():
        if pattern.match(head):
            raise InputError(
                source,
                expected="UTF-8, or UTF-16 with a byte order mark",
                got=f"what looks like {encoding} without one",
                remedy=f'declare encoding="{encoding}"',
                remedy_code=encoding,
            )
    return None


class Recoded:
    """A stream of text in another encoding, read as UTF-8; raises InputError with the line."""

    def __init__(self, stream: Readable, encoding: str, source: str) -> None:
        self._stream = stream
        self._encoding = encoding
        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._line = 1
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """About ``size`` bytes of UTF-8; none at the end."""
        while not self._ended:
            data = self._stream.read(size)
            self._ended = not data
            try:
                text = self._decoder.decode(data, final=self._ended)
            except UnicodeError as error:
                raise self._refused(error) from None
            if text:
                self._line += text.count("\n")
                # A surrogate is no character: the reader of lines finds it.
                return text.encode("utf-8", "surrogatepass")
        return b""

    def _refused(self, error: UnicodeError) -> InputError:
        line, got = self._line, str(error)
        if isinstance(error, UnicodeDecodeError):
            before = error.object[: error.start]
            line += before.decode(self._encoding, "ignore").count("\n")
            got = f"byte 0x{error.object[error.start]:02x}" if error.object else "no text"
            got += f" ({error.reason})"
        return InputError(
            f"{self._source}:{line}",
            expected=f"text in {self._encoding}",
            got=got,
            remedy="correct encoding=, the encoding that the file was written in",
            remedy_code="encoding",
        )
