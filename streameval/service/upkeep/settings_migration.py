"""An old store under changed settings: parts that begin or are dropped, and refused changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from streameval.errors import ConfigError, shown
from streameval.evaluator.comparison import Evaluation, reference_of
from streameval.evaluator.evaluator import Evaluator
from streameval.evaluator.slices import OTHER
from streameval.events.time import duration_text, iso_time
from streameval.metrics.registry import find
from streameval.service.alerts.rules import stored_book
from streameval.service.config.evaluators import (
    KEPT,
    PREDICTED,
    RetentionOptions,
    comparison_of,
    evaluator_of,
    fingerprint,
    open_evaluators,
    retention_of,
    slice_fields,
    spec_of,
    with_stored_defaults,
)
from streameval.service.config.settings import (
    DEFAULT_MAX_SCORES,
    EXACT,
    RunSettings,
    WindowSettings,
)
from streameval.service.join.counts import JOIN_SPANS, read_join, read_spans
from streameval.service.join.label_join import JOIN_LAYOUT, join_layout
from streameval.service.store.dialect import Connection, decoded
from streameval.service.store.fingerprints import refused_change
from streameval.service.store.positions import Positions
from streameval.service.store.state_rows import StateRows, merged_windows
from streameval.service.store.store import Store
from streameval.service.store.valid_from import VALID_FROM, ValidFrom, read_valid_from
from streameval.service.upkeep.state_conversion import (
    conversion,
    dimensions,
    state_sets,
    with_metrics,
)
from streameval.states.registry import STATES
from streameval.tasks.registry import TASKS
from streameval.windows import Panes, window_spec


@dataclass
class SettingsMigration:
    """The effect of changed settings on a store; :meth:`apply` changes it."""

    settings: RunSettings
    valid_from: ValidFrom
    changed: bool = False
    """Whether the store has to be written."""
    lines: list[str] = field(default_factory=list)
    """A line of text for each change."""
    drops: dict[str, str] = field(default_factory=dict)
    """From the name that ``--drop`` takes to the data that would be lost, in words."""
    removed: list[str] = field(default_factory=list)
    """Windows that are no longer kept."""
    steps: dict[str, Callable[[Evaluation], Evaluation]] = field(default_factory=dict)
    """From a window that is kept to the conversion of its states."""
    layout: list[str] | None = None
    """Columns of the predictions that a join has kept so far."""

    @property
    def converts(self) -> bool:
        """Whether stored states change."""
        return bool(self.steps or self.removed)

    def apply(self, store: Store) -> None:
        """Convert the store to these settings, in one transaction."""
        with store.transaction() as connection:
            rows = StateRows(connection)
            for window in self.removed:
                rows.drop(window)
            for window, step in self.steps.items():
                rows.change(window, step)
            connection.execute("DELETE FROM meta WHERE key LIKE 'config.%'")
            for key, value in fingerprint(self.settings).items():
                store.set_meta(f"config.{key}", value)
            store.set_meta(
                VALID_FROM, msgspec.json.encode(self.valid_from, order="sorted").decode()
            )
            if self.layout is not None:
                store.set_meta(JOIN_LAYOUT, msgspec.json.encode(self.layout).decode())


def stored_retention(meta: Mapping[str, str]) -> dict[str, RetentionOptions]:
    """What the windows of a store keep, by name, from its properties; raises StoreError."""
    # A store of an older release says nothing of it: its windows keep all scores and no sums.
    text = meta.get(f"config.{KEPT}")
    if text is not None:
        return decoded(text, dict[str, RetentionOptions], f"{KEPT} is")
    windows = decoded(meta.get("config.window", "{}"), dict[str, Any], "window is")
    return dict.fromkeys(windows, RetentionOptions())


def migration_of(
    path: str, connection: Connection, settings: RunSettings, now: int
) -> SettingsMigration:
    """Compare a store with settings, and find how it has to be converted."""
    return _SettingsComparison(path, connection, settings, now).compare()


class UnitView(NamedTuple):
    """How readers show a unit of a store whose other units may have other settings."""

    valid_from: ValidFrom
    steps: Mapping[str, Callable[[Evaluation], Evaluation]] | None = None
    """From a window to the conversion of its states, where the unit has yet to be converted;
    windows that are missing are not shown. None: as they are stored."""


def stored_fingerprint(meta: Mapping[str, str]) -> dict[str, str]:
    """The settings that the counts of a store or unit depend on, from its properties."""
    return {key: value for key, value in meta.items() if key.startswith("config.")}


def view_of(
    path: str,
    connection: Connection,
    found: Mapping[str, str],
    shown: Mapping[str, str],
    settings: Callable[[], RunSettings],
    now: int,
) -> UnitView:
    """How a unit is shown under the settings of others: as if it were converted now."""
    # A unit that was claimed a moment ago has no properties, and holds nothing.
    if stored_fingerprint(found) in ({}, stored_fingerprint(shown)):
        return UnitView(read_valid_from(connection))
    wanted = settings()
    migration = migration_of(path, connection, wanted, now)
    if not migration.converts:
        return UnitView(migration.valid_from)
    steps: dict[str, Callable[[Evaluation], Evaluation]] = {
        name: lambda unchanged: unchanged
        for name in open_evaluators(wanted)
        if name not in migration.removed
    }
    return UnitView(migration.valid_from, steps | migration.steps)


_SET_ONLY = ("evaluator.models", "evaluator.paired_scores", "evaluator.probabilities")
"""Settings that a store has only if they are no default."""

_FIXED = (
    *_SET_ONLY,
    *("evaluator.task", "evaluator.positive", "join", "fields.weight", "fields.y_pred"),
)
"""Settings that cannot change."""

_RENAME = "give the window another name, "
_NEW_NAMES = "give the windows new names, "


class _SettingsComparison:
    """Compares the settings that a store was begun with and those of a run."""

    def __init__(self, path: str, connection: Connection, settings: RunSettings, now: int) -> None:
        self._path = path
        self._connection = connection
        self._meta = dict(connection.execute("SELECT key, value FROM meta"))
        self._stored = stored_retention(self._meta)
        self._given, settings = settings, with_stored_defaults(settings, self._stored)
        self._settings = settings
        got = fingerprint(settings)
        was = {key[7:]: value for key, value in stored_fingerprint(self._meta).items()}
        self._got = {key: msgspec.json.decode(value) for key, value in got.items()}
        # Settings that an older release did not write are unchanged, and these the default.
        absent = (*_SET_ONLY, PREDICTED)
        unwritten = {key: "null" if key in absent else value for key, value in got.items()}
        self._was: dict[str, Any] = {
            key: decoded(text, object, f"{key} is") for key, text in {**unwritten, **was}.items()
        }
        self._was[KEPT] = msgspec.to_builtins(self._stored)
        go_on = [self._stored[one.name] for one in settings.window if one.name in self._stored]
        self._bounded = any(kept.max_scores != EXACT for kept in go_on)
        self._summed = any(kept.interval_sums for kept in go_on)
        self._valid_from = valid_from = read_valid_from(connection)
        valid_from.joined = settings.join is not None
        self.migration = SettingsMigration(settings, valid_from, changed=was != got)
        self._begin: int | None = now
        if valid_from.joined:
            newest = Positions(connection).newest
            self._begin = None if newest is None else newest + 1
        self._merged: dict[str, Evaluator] = {}
        self._fresh: set[str] = set()
        self._scores_begin = valid_from.scores
        """Since when the store holds scores, whether they are kept from now on or not."""
        self._derives = False

    def compare(self) -> SettingsMigration:
        """Find every change; raises ConfigError for the first that is refused."""
        self._compare_alerts()
        self._compare_wait()
        self._say_what_grows()
        if self._was == self._got:
            return self.migration
        query = "SELECT (SELECT count(*) FROM positions) + (SELECT count(*) FROM states)"
        if not self._connection.execute(query).fetchone()[0]:
            self._report("no record was read before: all settings are taken over")
            self.migration.valid_from = ValidFrom(joined=self._valid_from.joined)
            return self.migration
        for key in _FIXED:
            self._require_same(key, self._was.get(key), self._got.get(key))
        merged = merged_windows(self._connection)
        windows = self._was["window"]
        self._merged = {name: reference_of(merged[name]) for name in windows if name in merged}
        self._coarsened = self._bounded and any(
            one.get("index", {}).get("level") for one in self._state_sets()
        )
        self._compare_kept()
        if "evaluator.models" in self._got:
            self._compare_only_windows()
            self._compare_predictions()
            return self.migration
        self._old = self._old_evaluator()
        self._new = self._new_evaluator()
        self._compare_metrics()
        if TASKS[self._settings.evaluator.task].truth in ("two classes", "classes"):
            self._compare_scores()
            self._compare_threshold()
            self._compare_labels()
        else:
            self._compare_other_states()
        self._compare_slices()
        self._compare_max_slices()
        self._compare_windows()
        self._compare_predictions()
        if self._settings.join is not None:
            before = msgspec.structs.replace(
                self._settings.evaluator, slices=self._was["evaluator.slices"]
            )
            self.migration.layout = join_layout(self._settings.fields, before, self._meta)
        threshold = self._settings.evaluator.threshold
        for window in self._settings.window:
            if window.name in self._merged:
                self.migration.steps[window.name] = conversion(
                    evaluator_of(self._settings, window),
                    self._fresh,
                    threshold if self._derives and not isinstance(threshold, dict) else None,
                    self._valid_from.panes.get(window.name),
                )
        return self.migration

    def _state_sets(self) -> Iterator[dict[str, Any]]:
        """The stored state sets of every window; the states of slices are parts of these."""
        for evaluator in self._merged.values():
            yield from state_sets(evaluator.to_state()["window"])

    def _report(self, text: str) -> None:
        self.migration.lines.append(text)

    def _drop(self, name: str, text: str) -> None:
        self.migration.drops[name] = text

    def _require_same(self, key: str, was: Any, got: Any, remedy: str = "") -> None:
        if was != got:
            raise refused_change(self._path, key, was, got, remedy)

    def _differs(self, key: str) -> bool:
        return bool(self._was.get(key) != self._got.get(key))

    def _beginning(self) -> str:
        """Since when a new part holds events, in words."""
        if self._begin is None:
            return "begins now: no event was read before"
        if self._valid_from.joined:
            return f"begins now: it holds predictions from {iso_time(self._begin)} on"
        return "begins now: it holds what is read from now on"

    def _begun(self, moments: dict[str, int], name: str) -> str:
        """Note since when a new part holds events; returns it in words."""
        if self._begin is not None:
            moments[name] = self._begin
        return self._beginning()

    def _old_evaluator(self) -> Evaluator:
        was = self._was
        own = TASKS[was["evaluator.task"]].options
        return Evaluator(
            was["evaluator.task"],
            **({"positive": was["evaluator.positive"]} if "positive" in own else {}),
            labels=was["evaluator.labels"],
            metrics=was["evaluator.metrics"],
            bins=was["evaluator.bins"],
            probabilities=self._settings.evaluator.probabilities,
            max_scores=DEFAULT_MAX_SCORES if self._bounded else None,
            intervals=self._summed,
            slices=[tuple(slice_fields(part)) for part in was["evaluator.slices"]],
        )

    def _new_evaluator(self) -> Evaluator:
        window = WindowSettings(
            name="all",
            max_scores=DEFAULT_MAX_SCORES if self._bounded else EXACT,
            interval_sums=self._summed,
        )
        return evaluator_of(self._settings, window)

    def _say_what_grows(self) -> None:
        """A line for each window of an older release, whose scores are not bounded."""
        chosen = self._given.evaluator
        wanted = chosen.max_scores or chosen.paired_scores
        if wanted or not spec_of(self._settings).has_scores:
            return
        for window in self._given.window:
            stored = self._stored.get(window.name)
            if stored is not None and stored.max_scores == EXACT and not window.max_scores:
                self._report(
                    f"window {window.name!r} keeps all scores, as it was begun, and its memory "
                    "grows with them; a window of another name is bounded, and "
                    f'max_scores = "{EXACT}" leaves it so without this line'
                )

    def _compare_kept(self) -> None:
        for given, window in zip(self._given.window, self._settings.window, strict=True):
            name = window.name
            kept = self._stored.get(name, retention_of(self._settings, window))
            for key, was in msgspec.structs.asdict(kept).items():
                where = "evaluator" if getattr(given, key) is None else f"window.{name}"
                self._require_same(f"{where}.{key}", was, getattr(window, key), _RENAME)

    def _compare_predictions(self) -> None:
        """Predictions without labels begin anew where their options change."""
        was: dict[str, Any] = self._was.get(PREDICTED) or {}
        got: dict[str, Any] = self._got.get(PREDICTED) or {}
        for name in {**was, **got}:
            if was.get(name) == got.get(name):
                continue
            self._valid_from.windows.pop(name, None)
            if name in was:
                self.migration.removed.append(name)
            text = f"predictions of window {name.partition(':')[0]!r}"
            if name in got:
                text = f"counting {text} {self._begun(self._valid_from.windows, name)}"
            else:
                text = f"{text} are no longer counted"
            if text not in self.migration.lines:  # once of several models
                self._report(text)

    def _compare_alerts(self) -> None:
        text = stored_book(self._connection)
        book = {} if text is None else decoded(text, dict[str, Any], "the book of alerts is")
        known = set(book.get("alerts", ()))
        wanted = {alert.name for alert in self._settings.alert}
        self.migration.lines += [f"alert {name!r} begins now" for name in sorted(wanted - known)]
        self.migration.lines += [f"alert {name!r} is removed" for name in sorted(known - wanted)]

    def _compare_wait(self) -> None:
        noted = self._meta.get(JOIN_SPANS)
        if noted is None or self._settings.join is None:
            return
        was = read_spans(noted).wait
        wait = self._settings.join.wait.us
        if was != wait:
            counts = read_join(self._connection) or {}
            late = counts.get("too_late", 0) + counts.get("expired", 0)
            self._report(
                f"join.wait: {duration_text(wait)} instead of {duration_text(was)} for labels that "
                f"are read from now on; {late:,} that were too late or expired stay so"
            )

    def _compare_metrics(self) -> None:
        was, got = self._was["evaluator.metrics"], self._got["evaluator.metrics"]
        if was is None or got is None:
            if was != got:
                self._report(
                    "evaluator.metrics: " + ("the usual ones" if got is None else "chosen")
                )
            return
        lines = self.migration.lines
        lines += [f"metric {name!r} is added" for name in got if name not in was]
        lines += [f"metric {name!r} is no longer shown" for name in was if name not in got]

    def _compare_scores(self) -> None:
        """The states of scores: kept, dropped, or begun anew."""
        key = "fields.scores"
        fed, feeds = self._was[key], self._got[key]
        if fed is not None:
            self._require_same(key, fed, feeds)
        old = frozenset(self._old.plan.fed["scores"] if fed else ())
        new = frozenset(self._new.plan.fed["scores"] if feeds else ())
        self._old_scores = old
        coarsened = self._coarsened
        rebinned = self._differs("evaluator.bins") and ("index" not in old or coarsened)
        rebinned = rebinned and bool(new & old & {"probability", "class_probability"})
        derived = {row.name for row in STATES.values() if row.source in old and not coarsened}
        if rebinned or new - old - derived:
            self._fresh |= new
            self._valid_from.scores = self._begin
            if old:
                self._drop("scores", f"the sums of scores ({self._metrics_of(old)})")
            self._report(f"what is kept of scores ({self._metrics_of(new)}) {self._beginning()}")
        elif old - new:
            self._drop("scores", f"the sums of scores ({self._metrics_of(old - new)})")
        elif self._differs("evaluator.bins"):
            self._report(f"evaluator.bins: {self._got['evaluator.bins']} for all events")
        if not new:
            self._valid_from.scores = None

    def _compare_other_states(self) -> None:
        """The states of a task without classes: kept or dropped, but none is added to others."""
        self._require_same("fields.scores", self._was["fields.scores"], self._got["fields.scores"])
        if not self._merged.keys() & self._got["window"].keys():
            return
        keys = ["evaluator.threshold", "evaluator.labels"]
        if self._new.plan.keeps - self._old.plan.keeps:
            keys.append("evaluator.metrics")
        for key in keys:
            self._require_same(key, self._was.get(key), self._got.get(key), _NEW_NAMES)

    def _metrics_of(self, states: Iterable[str]) -> str:
        """The metrics that need any of these states, in words."""
        task = self._settings.evaluator.task
        names = {*(self._was["evaluator.metrics"] or ()), *(self._got["evaluator.metrics"] or ())}
        found = [name for name in sorted(names) if {*find(name, task).states} & {*states}]
        return ", ".join(found) or "all metrics of them"

    def _compare_threshold(self) -> None:
        """Counts of labels: kept, derived from the scores, or begun anew."""
        key = "evaluator.threshold"
        had = "confusion" in self._old.plan.keeps
        has = "confusion" in self._new.plan.keeps
        moved = self._differs(key) and not self._was["fields.y_pred"]
        if self._differs(key) and not moved:
            self._report(f"{key}: not used, as records bring their y_pred")
        if not has:
            if had:
                self._drop("labels", "the counts of labels")
            self._valid_from.labels = None
            return
        if had and not moved:
            return
        what = f"{key}: {self._got.get(key)}: the" if moved else "the"
        if self._derivable(had):
            self._derives = True
            self._valid_from.labels = self._scores_begin
            self._report(f"{what} counts of labels are derived exactly from all scores kept so far")
            return
        self._fresh |= {row.name for row in STATES.values() if row.input == "labels"}
        self._valid_from.labels = self._begin
        if had:
            self._drop("labels", "the counts of labels at the old threshold")
        self._report(f"{what} counting of labels {self._beginning()}")

    def _derivable(self, had: bool) -> bool:
        """Whether the counts of all labels follow exactly from the scores that are kept."""
        fewer = had and (self._scores_begin or 0) > (self._valid_from.labels or 0)
        if self._was["fields.y_pred"] or "index" not in self._old_scores or fewer:
            return False
        if self._coarsened:
            return False  # scores near the threshold may be in one cell
        return all(one["index"]["exact"] for one in self._state_sets())

    def _compare_labels(self) -> None:
        key = "evaluator.labels"
        was, got = self._was[key], self._got[key]
        if was == got:
            return
        if not self._settings.evaluator.probabilities:
            # Of events before there would be no score of a new label.
            self._require_same(key, was, got)
        known = {label for evaluator in self._merged.values() for label in evaluator.labels}
        binary = TASKS[self._settings.evaluator.task].positive is not None
        if was is not None or binary:
            known = set(self._old.labels)
        allowed = known if got is None else set(got)
        if binary:
            allowed = set(self._new.labels)
        if known - allowed:
            raise refused_change(self._path, key, sorted(known, key=str), got)
        self._report(
            f"{key}: {shown(got) if got else 'any'} from now on; a record that was refused for "
            "its label before is in quarantine: store quarantine --replay counts it"
        )

    def _compare_slices(self) -> None:
        old = {frozenset(names): "+".join(names) for names in dimensions(self._old)}
        new = {frozenset(names): "+".join(names) for names in dimensions(self._new)}
        begins = self._valid_from.slices
        for names, name in new.items():
            if names not in old:
                self._report(f"slice {name!r} {self._begun(begins, name)}")
            elif old[names] in begins:
                begins[name] = begins.pop(old[names])
        for names, name in old.items():
            if names not in new:
                begins.pop(name, None)
                values = {key for e in self._merged.values() for key in e.slices()}
                count = sum(names == {k for k, _ in key} for key in values)
                self._drop(f"slice.{name}", f"slice {name!r} and its {count:,} values")

    def _compare_max_slices(self) -> None:
        key = "evaluator.max_slices"
        if not self._differs(key):
            return
        was, most = self._was[key], self._got[key]
        kept = [e for name, e in self._merged.items() if name in self._got["window"]]
        if most > was and any(evaluator.slices_overflowed for evaluator in kept):
            # A slice that is opened only now would lack its events in "(other)".
            self._require_same(key, was, most, _NEW_NAMES)
        wanted = {frozenset(names) for names in dimensions(self._new)}
        for evaluator in kept:
            opened = sum(
                frozenset(name for name, _ in values) in wanted
                and any(value != OTHER for _, value in values)
                for values in evaluator.slices()
            )
            if opened > most:
                raise ConfigError(
                    f"{key}: expected at least {opened}, the slices that are open in "
                    f"{self._path}, got {most}"
                )
        self._report(f"{key}: {most:,} instead of {was:,}")

    def _compare_only_windows(self) -> None:
        """Compare windows and metrics, the only settings of several models that may change."""
        new = self._new_evaluator()
        free = {"window", KEPT, PREDICTED}
        old = comparison_of(self._old_evaluator(), self._settings)
        if comparison_of(new, self._settings).keeps == old.keeps:
            free.add("evaluator.metrics")
        for key in self._got:
            if key not in free:
                self._require_same(key, self._was.get(key), self._got[key])
        was, got = self._was["window"], self._got["window"]
        for name in was.keys() & got.keys():
            self._require_same(f"window.{name}", was[name], got[name], _RENAME)
        self._compare_windows()
        if self._differs("evaluator.metrics"):
            self._compare_metrics()
            self.migration.steps = {
                name: partial(with_metrics, new.options["metrics"]) for name in was if name in got
            }

    def _compare_windows(self) -> None:
        was, got = self._was["window"], self._got["window"]
        for name in was:
            if name not in got:
                query = 'SELECT count(*) FROM states WHERE "window" = ?'
                (count,) = self._connection.execute(query, (name,)).fetchone()
                self._drop(f"window.{name}", f"window {name!r} and its {count:,} states")
                self.migration.removed.append(name)
                self._valid_from.windows.pop(name, None)
                self._valid_from.panes.pop(name, None)
        for name in got:
            if name not in was:
                begins = self._begun(self._valid_from.windows, name)
                self._report(f"window {name!r} {begins}")
            elif was[name] != got[name]:
                self._compare_window(name, was[name], got[name])

    def _compare_window(self, name: str, was: dict[str, Any], got: dict[str, Any]) -> None:
        for key in [*was, *got]:
            if key not in ("length", "lateness", "retain"):
                self._require_same(f"window.{name}.{key}", was.get(key), got.get(key), _RENAME)
        before, after = window_spec(was), window_spec(got)
        assert isinstance(before, Panes)
        assert isinstance(after, Panes)
        evaluator = self._merged.get(name)
        newest = None if evaluator is None else evaluator.newest
        if evaluator is None or newest is None:
            self._report(f"window {name!r}: changed before its first event")
            return
        late = "late_dropped" if after.lateness_us > before.lateness_us else "late_kept"
        late_by = (before.lateness_us, after.lateness_us)
        # With a join, the join alone decides what is late.
        if evaluator.arrivals[late] and not self._valid_from.joined:
            self._require_same(f"window.{name}.lateness", *late_by, _RENAME)
        text = f"window {name!r}: {duration_text(after.length_us)} long, keeps panes for "
        text += duration_text(after.retain_us)
        number = newest // after.pane_us
        if after.retained > before.retained:
            oldest = (number - before.retained + 1) * after.pane_us
            cuts = self._valid_from.panes
            cuts[name] = max(oldest, cuts.get(name, oldest))
            text += f"; those before {iso_time(cuts[name])} had been dropped"
        else:
            panes = [row["pane"] for row in evaluator.to_state()["window"]["panes"]]
            gone = sum(pane <= number - after.retained for pane in panes)
            if gone:
                self._drop(f"panes.{name}", f"{gone:,} panes of window {name!r}")
        self._report(text)
