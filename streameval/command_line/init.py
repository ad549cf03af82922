"""``streameval init``: a configuration to start from."""

from __future__ import annotations

import shlex
from typing import Annotated, get_args

import msgspec
import typer

from streameval.command_line.output import TargetError, check_target, write

__all__ = ["init", "template"]

_BEFORE_WINDOWS = """\
# The configuration of `streameval run`. A line that begins with "#" and no space is
# a setting that is off: remove the "#" to switch it on. Check the file with
#
#     streameval run CONFIG.toml --check
#
# Durations are texts: "500ms", "90s", "5m", "1h", "7d", "2w". Secrets need not be
# in this file: "env:NAME" is a variable of the environment, "file:PATH" the text
# in a file.

# The file that everything is kept in; the inbox of posted records lies beside it.
store = "streameval.db"


# --- What is evaluated --------------------------------------------------------

[evaluator]
# "binary" or "multiclass".
task = "binary"
# The label that counts as positive; true and 1 are one. Where it is text, name
# both labels below.
positive = true
# A score from here on is predicted positive.
threshold = 0.5
# All labels there are; others are refused.
#labels = [0, 1]
# The metrics that are kept and shown, as `streameval metrics` lists them; off,
# the usual ones are shown, and all can be queried.
#metrics = ["accuracy", "precision", "recall", "f1", "roc_auc", "log_loss"]
# Bins of the calibration curve.
#bins = 10
# Fields to evaluate by as well. A list of fields is a combination of them.
#slices = ["country", ["country", "model"]]
# Largest number of slices; further ones are counted as "(other)".
#max_slices = 10000


# --- Which events count: one [[window]] for each --------------------------------

"""

_BEFORE_SOURCES = """\


# --- The fields of a record -----------------------------------------------------
#
# A record is a JSON object. A dot in a path goes one level down: "meta.score".

[fields]
# What a label and its prediction share; needed for the join.
id = "id"
# The true label.
y_true = "y_true"
# The positive label's score, any number. In its place, proba = "proba" names an
# object from label to probability.
score = "score"
# The predicted label; off, it follows from score or proba.
#y_pred = "y_pred"
# A weight above 0.
#weight = "weight"
# When it happened: ISO 8601 with an offset, or a number. Off, it is when Kafka or
# the inbox took the record; for files, when it is read.
#time = "time"
# What numbers count since 1970: "s", "ms", "us" or "ns".
#time_unit = "ms"
# A record whose time is further ahead of the clock is bad, because it would make
# all others late: at most half of join.wait, and a pane or half-life of each window;
# off, as much as that, and a day at most.
#ahead = "5m"

# Where the keys of slices are found, if not under their own names.
#[fields.slices]
#country = "meta.country"

# Where a label's own record has its fields, if not in the same places.
#[fields.label]
#id = "prediction_id"
#y_true = "truth"
#time = "labelled_at"


# --- Sources of records: any of these, together or alone ------------------------

"""

_AFTER_SOURCES = """\


# --- Labels that arrive later -----------------------------------------------------
#
# Without [join], only records that hold their label count.

[join]
# A label counts if it is at most so much younger, or older, than its prediction.
wait = "24h"
# For how long after that duplicates and corrections are recognised; off, as wait.
#remember = "24h"
# Most entries in memory; the rest is on disk.
#hot = 500000


# --- How it runs --------------------------------------------------------------------

# When what was counted becomes durable and visible: so often, or after so many
# events if that is sooner.
[checkpoint]
#every = "1s"
#events = 50000

# Records that cannot be counted: how many are kept, and how much of each.
[quarantine]
#keep = 10000
#max_bytes = 4096

[serve]
# Pages, API and /metrics.
#enabled = true
# Host and port; port 0 is any free one. Any address but loopback needs the token.
listen = "127.0.0.1:8642"
# Requests send it as "Authorization: Bearer".
#token = "env:STREAMEVAL_TOKEN"
# Most slices in /metrics, those of most support.
#max_slices_exposed = 200
# /readyz answers 503 while more records than this wait to be read, or while the last
# checkpoint is older than this.
#ready_lag = 100000
#ready_checkpoint_age = "30s"


# --- Alerts: one [[alert]] for each -------------------------------------------------

#[[alert]]
#name = "f1-low"
#metric = "f1"
# It fires below this; above = 0.2 would fire above that.
#below = 0.8
# Off, the first window.
#window = "hour"
# Off, all events.
#slice = { country = "PT" }
# With less support than this the value is not judged.
#min_support = 1000
# For how long it has to be so.
#for = "10m"

#[[alert]]
#name = "log-loss-high"
#metric = "log_loss"
#above = 0.7

# Where alerts are posted to.
#[webhook]
#url = "https://hooks.example.com/streameval"
# Sent as "Authorization: Bearer".
#token = "file:/run/secrets/webhook"
#timeout = "5s"
# After 1, 2, 4 ... seconds.
#retries = 5
"""

PathArgument = Annotated[
    str, typer.Argument(metavar="[PATH]", help="The file to write; - is the standard output.")
]


def init(path: PathArgument = "streameval.toml") -> None:
    """Write a configuration to start from, with every key explained."""
    if path == "-":
        write(template().rstrip("\n"))
        return
    check_target(path)
    try:
        # "x" looks and creates at once: nothing is ever overwritten.
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            file.write(template())
    except FileExistsError:
        raise TargetError(
            f"{path}: expected no such file yet, got one that is there; "
            "name another, or remove it first"
        ) from None
    except OSError as error:
        raise TargetError(f"{path}: cannot be written: {error.strerror or error}") from None
    write(f"wrote {path}; see what it comes to with: streameval run {shlex.quote(path)} --check")


def template() -> str:
    """The whole text: the windows and the sources as their rows have them."""
    # Imported here: the help of the command loads nothing of a run.
    from streameval.stream.config.settings import RunSettings
    from streameval.windows.kinds import KINDS

    kinds = [kind for field in msgspec.structs.fields(RunSettings) for kind in get_args(field.type)]
    sources = [kind.template for kind in kinds if hasattr(kind, "template")]
    windows = [kind.template for kind in KINDS.values() if kind.template]
    return (
        _BEFORE_WINDOWS + "\n".join(windows) + _BEFORE_SOURCES + "\n".join(sources) + _AFTER_SOURCES
    )
