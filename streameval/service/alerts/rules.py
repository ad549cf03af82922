"""Alerts: bounds on published metrics, and their states over time.

:class:`AlertBook` reads no clock and sends nothing: it maps values and a time to states and
transitions, and its own state is plain data that is stored with the checkpoint, so that a
restart neither loses an alert nor sends it twice. :class:`Alerts` evaluates a book with each
snapshot of a run, stores it, and logs and posts its transitions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from streameval.errors import StateError, StoreError, shown
from streameval.evaluator.comparison import Evaluation
from streameval.evaluator.slices import slice_name
from streameval.events.time import iso_time
from streameval.service.alerts.inputs import AlertInput, AlertInputs
from streameval.service.alerts.transition import Event, Transition
from streameval.service.config.settings import (
    LAG,
    RUN_METRICS,
    VOLUME,
    AlertSettings,
    RunSettings,
    level_of_alert,
)
from streameval.service.publish.snapshot import AlertState, Snapshot, State, Value, When, finite
from streameval.service.store.dialect import Connection

if TYPE_CHECKING:
    from streameval.service.alerts.webhook import Webhook

log = logging.getLogger(__name__)

_NOT_COMPUTED = AlertInput(Value(None, 0, "not computed"))

_MOST_UNSENT = 1000
"""Transitions kept for a webhook that does not answer; older ones are dropped."""


class AlertChanges(NamedTuple):
    """Every alert's state, and what has just changed."""

    states: list[AlertState]
    transitions: list[Transition]


class _Memory(msgspec.Struct, forbid_unknown_fields=True):
    """The stored state of an alert."""

    watched: str
    """Metric, window, slice, bound and what is compared with it; an alert in which one of these
    changes starts anew."""
    state: State = "undefined"
    since: int | None = None
    crossed: int | None = None
    """When its value crossed the bound, while it is pending or firing."""


class _Book(msgspec.Struct, forbid_unknown_fields=True):
    version: Literal[1]
    next: int
    alerts: dict[str, _Memory]
    unsent: list[Transition]


class AlertBook:
    """The alerts of a run: their states, and the transitions that are not delivered yet."""

    # An alert is ok; pending while its bound is crossed for less than its for-duration; firing
    # after that; undefined while its metric has no value or too little support. A firing alert
    # fires until a value within the bound is seen: a missing value does not resolve it. An alert on
    # the interval crosses its bound when the whole interval is beyond it, and is resolved by a
    # value within the bound. In between a firing alert keeps firing and another one is ok. An alert
    # on any slice crosses its bound while it names a slice.

    __slots__ = ("_levels", "_memory", "_next", "_settings", "_unsent")

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._levels = {alert.name: level_of_alert(alert, settings) for alert in settings.alert}
        self._memory = {alert.name: _Memory(self._watched(alert)) for alert in settings.alert}
        self._next = 1
        self._unsent: dict[int, Transition] = {}

    def judge(self, inputs: Mapping[str, AlertInput], now: int) -> AlertChanges:
        """The states under these values."""
        changes = AlertChanges([], [])
        for alert in self._settings.alert:
            found = inputs.get(alert.name, _NOT_COMPUTED)
            memory = self._memory[alert.name]
            before = memory.state
            reason = _reason(alert, found)
            if not reason:
                crossing = _crossing(alert, found, self._levels[alert.name])
                memory.state = _next_state(memory, crossing, alert.for_.us, now)
            elif before != "firing":
                memory.state, memory.crossed = "undefined", None
            if memory.state != before or memory.since is None:
                memory.since = now
            shown = self._shown(alert, found)
            changes.states.append(shown)
            event = _event(before, memory.state, failed=found.failed)
            if event is not None:
                number, self._next = self._next, self._next + 1
                self._unsent[number] = transition = Transition.of(
                    shown,
                    number=number,
                    event=event,
                    part={} if isinstance(alert.slice, str) else alert.slice,
                    at=iso_time(now),
                )
                changes.transitions.append(transition)
        while len(self._unsent) > _MOST_UNSENT:
            del self._unsent[next(iter(self._unsent))]
        return changes

    def states(self, inputs: Mapping[str, AlertInput]) -> list[AlertState]:
        """The states as they are, beside these values, which are not judged."""
        alerts = self._settings.alert
        return [self._shown(alert, inputs.get(alert.name, _NOT_COMPUTED)) for alert in alerts]

    def _shown(self, alert: AlertSettings, found: AlertInput) -> AlertState:
        memory = self._memory[alert.name]
        seen = found.value
        below = alert.below is not None
        against = "the window before" if alert.against else alert.reference or ""
        if alert.model is not None:
            against = (self._settings.evaluator.models or [""])[0]
        return AlertState(
            name=alert.name,
            metric=alert.metric,
            window=self._window(alert),
            slice=_slice_text(alert),
            state=memory.state,
            value=finite(seen.value),
            bound=_CERTAINTY[alert.when]
            + (f"below {alert.below:.12g}" if below else f"above {alert.above:.12g}"),
            below=alert.below,
            above=alert.above,
            when=alert.when,
            against=against,
            model=alert.model or "",
            level=self._levels[alert.name] if seen.method else None,
            low=seen.low,
            high=seen.high,
            method=seen.method,
            p_value=UNSET if found.p_value is None else found.p_value,
            slices=list(found.slices),
            support=seen.support,
            since=None if memory.since is None else iso_time(memory.since),
            reason=_reason(alert, found),
        )

    @property
    def unsent(self) -> list[Transition]:
        """Transitions that were neither delivered nor given up, the oldest first."""
        return list(self._unsent.values())

    def discard(self, numbers: Iterable[int]) -> None:
        """Remove transitions that were delivered or given up."""
        for number in numbers:
            self._unsent.pop(number, None)

    def to_state(self) -> dict[str, Any]:
        """Plain data for JSON."""
        book = _Book(1, self._next, self._memory, self.unsent)
        state: dict[str, Any] = msgspec.to_builtins(book)
        return state

    def restore(self, state: object) -> None:
        """Restore what :meth:`to_state` returned; alerts that are new or changed start anew."""
        try:
            book = msgspec.convert(state, _Book)
        except msgspec.ValidationError as error:
            raise StateError(
                f"alerts: expected their saved state, got {shown(str(error))}"
            ) from None
        for name, memory in book.alerts.items():
            known = self._memory.get(name)
            if known is not None and known.watched == memory.watched:
                self._memory[name] = memory
        self._next = max(self._next, book.next)
        self._unsent = {transition.number: transition for transition in book.unsent}

    def _window(self, alert: AlertSettings) -> str:
        """The alert's window; empty for a number of the run."""
        first = self._settings.window[0].name
        return "" if alert.metric in RUN_METRICS else alert.window or first

    def _watched(self, alert: AlertSettings) -> str:
        where = alert.slice if isinstance(alert.slice, str) else sorted(alert.slice.items())
        about = [alert.metric, self._window(alert), where, alert.below, alert.above]
        if alert.when != "value":
            about += ["when", alert.when, self._levels[alert.name]]
        # Without these, as older versions have stored it.
        for name in ("against", "reference", "model", "per"):
            if getattr(alert, name) is not None:
                about += [name, getattr(alert, name)]
        return msgspec.json.encode(about, enc_hook=str).decode()


_CERTAINTY: Mapping[When, str] = {"value": "", "certain": "certainly ", "anytime": "certainly "}


def _slice_text(alert: AlertSettings) -> str:
    if isinstance(alert.slice, str):
        return alert.slice
    return slice_name(tuple(alert.slice.items())) if alert.slice else ""


def _reason(alert: AlertSettings, found: AlertInput) -> str:
    """Why the value is not judged; empty where it is."""
    seen = found.value
    if seen.value is None or math.isnan(seen.value):
        return seen.reason or "undefined"
    if seen.support < alert.min_support and alert.metric not in (LAG, VOLUME):
        return f"support {seen.support:g}, less than {alert.min_support}"
    if alert.when != "value" and not seen.method and found.p_value is None:
        return seen.reason or "no interval"
    return ""


class _Crossing(NamedTuple):
    beyond: bool
    """The bound is crossed."""
    within: bool
    """A value that resolves the alert."""


def _crossing(alert: AlertSettings, found: AlertInput, level: float) -> _Crossing:
    seen = found.value
    if alert.slice == "any":
        return _Crossing(bool(found.slices), not found.slices)
    assert seen.value is not None
    low = high = seen.value
    if found.p_value is not None:
        if alert.when == "certain" and found.p_value > 1 - level:
            low, high = -math.inf, math.inf
    elif alert.when != "value":
        # An end that is not finite is published as None: it reaches beyond any bound.
        low = -math.inf if seen.low is None else seen.low
        high = math.inf if seen.high is None else seen.high
    if alert.below is not None:
        return _Crossing(high < alert.below, seen.value >= alert.below)
    assert alert.above is not None
    return _Crossing(low > alert.above, seen.value <= alert.above)


def _next_state(memory: _Memory, crossing: _Crossing, wait: int, now: int) -> State:
    if not crossing.beyond:
        if memory.state == "firing" and not crossing.within:
            return "firing"
        memory.crossed = None
        return "ok"
    # A clock that was set back must not keep an alert pending for a year.
    memory.crossed = now if memory.crossed is None else min(memory.crossed, now)
    if memory.state == "firing" or now - memory.crossed >= wait:
        return "firing"
    return "pending"


def _event(before: State, state: State, *, failed: bool) -> Event | None:
    """What a change of state is posted as; None: it is not."""
    if before == state:
        return None
    if "firing" in (before, state):
        return "firing" if state == "firing" else "resolved"
    return "undefined" if failed else None


def stored_book(connection: Connection) -> str | None:
    """The state of a book in a store; None if there is none."""
    row = connection.execute("SELECT state FROM alerts WHERE name = 'book'").fetchone()
    return None if row is None else row[0]


def restore_alerts(book: AlertBook, connection: Connection) -> str | None:
    """Restore a book from a store; returns its state."""
    text = stored_book(connection)
    if text is not None:
        try:
            book.restore(msgspec.json.decode(text))
        except (msgspec.DecodeError, StateError) as error:
            raise StoreError(f"the alerts in the store are damaged: {error}") from None
    return text


class Alerts:
    """Evaluates alerts with each snapshot; logs and posts their transitions."""

    def __init__(
        self,
        settings: RunSettings,
        connection: Connection,
        webhook: Webhook | None,
        evaluators: Mapping[str, Evaluation],
        now: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._evaluators = evaluators
        self._clock = clock
        self._webhook = webhook
        self._now = now
        self._read(settings)
        stored = restore_alerts(self._book, connection)
        self._written = self.stage() if stored is None else stored
        self._judged: list[Transition] = []
        for transition in self._book.unsent:
            self._post(transition)

    def _read(self, settings: RunSettings) -> None:
        self._book = AlertBook(settings)
        self._inputs = AlertInputs(settings, self._evaluators, self._clock)

    def configure(self, settings: RunSettings, webhook: Webhook | None) -> None:
        """Apply other settings; alerts that are the same keep their state."""
        if webhook is not self._webhook and self._webhook is not None:
            self._book.discard(self._webhook.finished())
        state = self._book.to_state()
        self._read(settings)
        self._book.restore(state)
        if webhook is not self._webhook:
            self._webhook = webhook
            for transition in self._book.unsent:
                self._post(transition)

    def judge(self, snapshot: Snapshot, *, post: bool = True) -> list[AlertState]:
        """The alerts' states under a snapshot; logs those that changed."""
        now = self._now()
        changes = self._book.judge(self._inputs.observe(snapshot, now), now)
        for transition in changes.transitions:
            level = logging.WARNING if transition.event == "firing" else logging.INFO
            log.log(level, "alert %s", transition.text)
        self._judged += changes.transitions
        if post:
            self.post()
        if self._webhook is not None:
            self._book.discard(self._webhook.finished())
        return changes.states

    def discard(self, numbers: Iterable[int]) -> None:
        """Forget transitions that were delivered or given up."""
        self._book.discard(numbers)

    def post(self) -> None:
        """Post what was judged since the last call."""
        for transition in self._judged:
            self._post(transition)
        self._judged.clear()

    def _post(self, transition: Transition) -> None:
        if self._webhook is None:
            self._book.discard([transition.number])
        else:
            self._webhook.post(transition)

    @property
    def changed(self) -> bool:
        """Whether the state differs from the stored one."""
        return self.stage() != self._written

    def stage(self) -> str:
        """The state, to be written where it has changed."""
        return msgspec.json.encode(self._book.to_state()).decode()

    def write(self, connection: Connection, changes: str) -> None:
        """Write the state, inside a transaction."""
        if changes != self._written:
            connection.execute(
                "INSERT INTO alerts VALUES ('book', ?) "
                "ON CONFLICT (name) DO UPDATE SET state = excluded.state",
                (changes,),
            )

    def committed(self, changes: str) -> None:
        """Note that a state is durable."""
        self._written = changes
