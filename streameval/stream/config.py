"""A configuration file becomes settings: typed, checked, every error with its key."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from streameval.errors import ConfigError, InputError, shown
from streameval.event_time import duration, duration_text
from streameval.files.json_record import split_path
from streameval.stream.config_checks import check_settings
from streameval.stream.config_faults import Places, type_fault
from streameval.stream.config_objects import (
    ahead_limit,
    evaluator_of,
    kept_metrics,
    main_metrics,
    window_spec_of,
)
from streameval.stream.config_overrides import applied
from streameval.stream.config_text import resolved
from streameval.stream.secret_values import secret
from streameval.stream.settings import LONGEST_AHEAD, HttpSettings, RunSettings

__all__ = [
    "evaluator_of",
    "kept_metrics",
    "load_settings",
    "main_metrics",
    "resolved",
    "secret",
    "settings_from_text",
    "window_spec_of",
]

_LARGEST = 1 << 20


def load_settings(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> RunSettings:
    """The settings in a configuration file.

    Args:
        path: A TOML file.
        overrides: ``KEY=VALUE`` each, with the key dotted: ``join.wait=6h``,
            ``window.0.pane=1m``. A value is written as in TOML; text may go bare.

    Raises:
        ConfigError: There is no such file, or it is no configuration. One line
            that names the file, the key, what was expected and what came, and
            never a secret.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "; streameval init writes one" if isinstance(error, FileNotFoundError) else ""
        raise ConfigError(f"{name}: expected a configuration file, got {reason}{remedy}") from None
    if len(data) > _LARGEST:
        raise ConfigError(
            f"{name}: expected a file of at most {_LARGEST:,} bytes, got a larger one"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}: expected UTF-8 text, got other bytes in line {line}") from None
    return settings_from_text(text, name, overrides)


def settings_from_text(
    text: str, name: str = "configuration", overrides: Sequence[str] = ()
) -> RunSettings:
    """The settings in a text; as :func:`load_settings`.

    >>> text = '[fields]\\nscore = "p"'
    >>> settings_from_text(text, overrides=["evaluator.threshold=0.7"]).evaluator.threshold
    0.7
    >>> settings_from_text('[fields]\\nscroe = "p"', "run.toml")
    Traceback (most recent call last):
    streameval.errors.ConfigError: run.toml: fields.scroe: expected a key of fields (id, ...
    """
    try:
        data = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name}: expected TOML, got a fault: {error}") from None
    except RecursionError:
        raise ConfigError(f"{name}: expected TOML nested less deeply") from None
    overridden = applied(overrides, data)
    places = Places(name, overridden)
    settings = _converted(data, places)
    if settings.files is None and settings.kafka is None and settings.http is None:
        settings = msgspec.structs.replace(settings, http=HttpSettings())
    _check_paths(settings, places)
    check_settings(settings, places)
    return _with_ahead(settings)


def _with_ahead(settings: RunSettings) -> RunSettings:
    """The settings with ``fields.ahead``, where the file leaves it out."""
    if settings.fields.ahead is not None:
        return settings
    limit, longest = ahead_limit(settings), duration(LONGEST_AHEAD)
    ahead = longest if limit is None else min(limit.ahead_us, longest)
    fields = msgspec.structs.replace(settings.fields, ahead=duration_text(ahead))
    return msgspec.structs.replace(settings, fields=fields)


def _converted(data: Mapping[str, Any], places: Places) -> RunSettings:
    fault = type_fault(_TYPE, data)
    if fault is not None:
        raise places.error(fault.key, expected=fault.expected, got=fault.got, remedy=fault.remedy)
    try:
        return msgspec.convert(data, RunSettings)
    except msgspec.ValidationError as error:  # beyond what type_fault knows of
        raise ConfigError(f"{places.name}: {error}") from None


def _check_paths(settings: RunSettings, places: Places) -> None:
    fields = settings.fields
    paths = {f"fields.{name}": getattr(fields, name) for name in _PATHS}
    paths |= {f"fields.label.{name}": getattr(fields.label, name) for name in _LABEL_PATHS}
    paths |= {f"fields.slices.{name}": path for name, path in fields.slices.items()}
    for key, path in paths.items():
        try:
            if path is not None:
                split_path(path)
        except InputError as error:
            raise places.error(key, expected=error.expected, got=shown(path)) from None


_TYPE = inspect.type_info(RunSettings)
_PATHS = ("id", "y_true", "y_pred", "score", "proba", "weight", "time")
_LABEL_PATHS = ("id", "y_true", "time")
