"""What an alert reports: it began to fire, is resolved, or its estimates have failed."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from streameval.service.publish.snapshot import AlertState, When

Event: TypeAlias = Literal["firing", "resolved", "undefined"]


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """An alert began to fire, is resolved, or its estimates have failed."""

    number: int
    """Ascending through the whole run, restarts included."""
    event: Event
    name: str
    metric: str
    window: str
    slice: dict[str, str | int]
    value: float | None
    """None where it is infinite."""
    bound: str
    support: float
    at: str
    when: When = "value"
    against: str = ""
    model: str = ""
    """The model that the metric is of; empty: the only or first model."""
    level: float | None = None
    low: float | None = None
    high: float | None = None
    method: str = ""
    p_value: float | UnsetType = UNSET
    """Of drift; missing: there is none."""
    reason: str | UnsetType = UNSET
    """Why there is no value; missing: there is one."""
    slices: list[str] = []
    """The slices beyond the bound of an alert on any slice; of one on fairness both groups."""

    @classmethod
    def of(
        cls, state: AlertState, *, number: int, event: Event, part: dict[str, str | int], at: str
    ) -> Transition:
        """The transition of an alert into a state; the facts about the alert are the state's."""
        facts = {name: getattr(state, name) for name in _FACTS}
        facts["reason"] = state.reason or UNSET
        return cls(**facts, number=number, event=event, slice=part, at=at)

    @property
    def text(self) -> str:
        """One sentence for people."""
        where = f" in window {self.window}" if self.window else ""
        where += "".join(f", {key}={value}" for key, value in self.slice.items())
        if self.slices:
            more = f" and {len(self.slices) - 3} more" if len(self.slices) > 3 else ""
            where += f", slices {'; '.join(self.slices[:3])}{more}"
        if self.event == "undefined":
            return f"undefined: {self.name}: {self.metric} has no value{where}: {self.reason}"
        value = "infinite" if self.value is None else f"{self.value:.6g}"
        if self.p_value is not UNSET:
            value += f" (p = {self.p_value:.3g})"
        elif self.method and self.when != "value":
            ends = ("infinite" if end is None else f"{end:.6g}" for end in (self.low, self.high))
            value += f" [{', '.join(ends)}]"
        against = f" against {self.against}" if self.against else ""
        model = f" of {self.model}" if self.model else ""
        return (
            f"{self.event}: {self.name}: {self.metric}{model} is {value}{against} "
            f"({self.bound} fires){where}, support {self.support:g}"
        )


_FACTS = {*Transition.__struct_fields__} & {*AlertState.__struct_fields__} - {"slice"}
