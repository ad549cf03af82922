"""Which columns of a file are meant, where no option names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from streameval.cli.output import say
from streameval.errors import InputError
from streameval.records.event_columns import columns_like
from streameval.records.input_files import InputFile, column_names

_NAMES: Mapping[str, str] = {
    "y_true": "target label labels class truth ground_truth actual y true_label gold",
    "y_pred": "prediction pred predicted predicted_label y_hat yhat pred_label",
    "score": "y_score prob probability y_prob y_proba p scores",
    "proba": "probabilities probs",
}
"""From each option to other names of its column; the option's own name comes before them."""

_PATTERNS = ("p_*", "prob_*", "proba_*", "score_*")
"""Columns of probabilities, of two labels or more."""

_LISTED = 12


def meant_columns(
    source: InputFile, given: Mapping[str, str | None], *, scores_only: bool = False
) -> dict[str, str | None]:
    """The columns of the options: those that are given, else the only ones whose names say so.

    Raises InputError where a column is missing, or several are as likely; a guess is printed.
    """
    predicted = any(given[name] for name in given if name != "y_true")
    columns = None
    # What cannot be read is refused where it is read, unless a name depends on it.
    with suppress(*([InputError] if predicted else [])):
        columns = column_names(source)
    named = dict(given)
    found = {name: _candidates(name, columns or ()) for name in given}
    if "y_true" in given and not given["y_true"]:
        taken = {path for path in given.values() if path}
        named["y_true"] = _only([name for name in found["y_true"] if name not in taken])
        if columns is None or predicted:
            named["y_true"] = named["y_true"] or "y_true"
    if columns is None or predicted:
        _say(named, given)
        return named
    if scores_only:
        found["y_pred"] = []
    likely = {name: [c for c in found[name] if c != named.get("y_true")] for name in given}
    named |= {name: _only(likely[name]) for name in ("y_pred", "score") if name in likely}
    if not named["y_pred"] and not named.get("score") and "proba" in likely:
        named["proba"] = _only(likely["proba"])
    lacking = _lacking(named, found)
    if lacking:
        raise _unclear(source, columns, lacking, named, likely)
    _say(named, given)
    return named


def _candidates(name: str, columns: Sequence[str]) -> list[str]:
    """The columns that may be an option's, its own name alone where it is there."""
    if name in columns:
        return [name]
    known = {column.lower(): column for column in columns}
    if name in known:
        return [known[name]]
    found = [known[other] for other in _NAMES[name].split() if other in known]
    if name == "proba" and not found:
        found = [pattern for pattern in _PATTERNS if len(columns_like(pattern, columns)) > 1]
    return found


def _only(names: Sequence[str]) -> str | None:
    return names[0] if len(names) == 1 else None


def _lacking(named: Mapping[str, str | None], found: Mapping[str, list[str]]) -> str:
    """What is not known, in words; empty where everything is."""
    parts = []
    if "y_true" in named and not named["y_true"]:
        parts.append(_words("the true label", found["y_true"]))
    if not any(named[name] for name in named if name != "y_true"):
        several = [column for name in named if name != "y_true" for column in found[name]]
        parts.append(_words("the prediction", several))
    return " and ".join(parts)


def _words(what: str, names: Sequence[str]) -> str:
    return f"{what} ({' or '.join(names)}?)" if len(names) > 1 else what


def _unclear(
    source: InputFile,
    columns: Sequence[str],
    lacking: str,
    named: Mapping[str, str | None],
    likely: Mapping[str, Sequence[str]],
) -> InputError:
    chosen = {name: column for name, column in named.items() if column and name != "y_true"}
    if not chosen:
        # The first that may be one, else any other column.
        may = {name: names[0] for name, names in likely.items() if names and name != "y_true"}
        chosen = dict([*may.items()][:1])
    true = named.get("y_true") or next(iter(likely.get("y_true", ())), "")
    others = [one for one in columns if one not in (true, *chosen.values()) and not _is_id(one)]
    true = true or next(iter(others), "COLUMN")
    default = "score" if "score" in likely else "y_pred"
    chosen = chosen or {default: next((one for one in reversed(others) if one != true), "COLUMN")}
    fields = {**({"y_true": true} if "y_true" in named else {}), **chosen}
    options = " ".join(f"--{name.replace('_', '-')} {one}" for name, one in fields.items())
    of_labels = "--y-pred is for predicted labels, --proba for probabilities"
    more = f", … ({len(columns)})" if len(columns) > _LISTED else ""
    return InputError(
        source.name,
        expected=f"columns whose names say what they are, or options that name {lacking}",
        got=", ".join(columns[:_LISTED]) + more,
        remedy=f"name them, such as {options}" + ("; " + of_labels if "score" in likely else ""),
    )


def _is_id(column: str) -> bool:
    """Whether a column's name says that it tells events apart."""
    return column.lower() in ("id", "index", "") or column.endswith(("Id", "ID", "_id"))


def _say(named: Mapping[str, str | None], given: Mapping[str, str | None]) -> None:
    """Print which columns were chosen by their names."""
    chosen = {n: c for n, c in named.items() if c and not given[n] and (n, c) != ("y_true", n)}
    if not chosen:
        return
    if all(name == column for name, column in chosen.items()):
        say(f"no field of predictions is named; used: {', '.join(chosen)}")
        return
    words = [f"--{name.replace('_', '-')} {column}" for name, column in chosen.items()]
    say(f"used, by the names of the columns: {' '.join(words)}")
