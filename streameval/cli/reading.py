"""How the files of a command are written: its options, and what they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from streameval.cli import options
from streameval.cli.option_group import option_group
from streameval.records.csv_table import LabelTypes
from streameval.records.input_files import InputFile, check_layout, find_sources
from streameval.records.label_text import LABEL_TYPES
from streameval.records.layout import FORMATS, text_layout
from streameval.records.request import COMMAND


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The options that say how files are written; :func:`with_reading` adds them to a command."""

    input_format: options.InputFormatOption = None
    label_type: options.LabelTypeOption = options.LabelTypeChoice.AUTO
    delimiter: options.DelimiterOption = None
    no_header: options.NoHeaderOption = False
    encoding: options.EncodingOption = None
    na_values: options.NaValuesOption = None
    utc: options.UtcOption = False

    def sources(self, files: Sequence[str]) -> list[InputFile]:
        """The files that paths, patterns and directories name.

        Raises:
            InputError: An option or a path that is wrong.
            OptionError: An option of text files where none is one.
        """
        layout = text_layout(
            COMMAND,
            delimiter=self.delimiter,
            encoding=self.encoding,
            header=not self.no_header,
            na_values=None if self.na_values is None else self.na_values.split(","),
        )
        chosen = next((name for name in FORMATS if name == self.input_format), None)
        sources = find_sources(files, chosen, layout)
        check_layout(sources, layout, COMMAND)
        return sources

    def label_types(self) -> LabelTypes:
        """The types of labels in CSV files."""
        return LabelTypes(next((name for name in LABEL_TYPES if name == self.label_type), None))


with_reading = option_group("reading", Reading)
