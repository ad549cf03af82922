"""The slices of a window: filtered, sorted, a page of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from streameval.errors import shown
from streameval.metrics.registry import find
from streameval.serve.answers import Answer, about_window
from streameval.serve.asking import Asking
from streameval.serve.fault import RefusedError
from streameval.serve.seams import Data

__all__ = ["slices"]

_MOST_ROWS = 10_000
_ORDERS = ("worst", "best", "asc", "desc")


def slices(data: Data, asking: Asking) -> Answer:
    """A page of the slices; undefined values come last in every order.

    Cost:
        O(n log n) in the window's slices.
    """
    window = asking.window(data)
    rows = data["slices"].get(window, [])
    metrics = _metrics(data, window, rows)
    sort = asking.choice("sort", ("support", "name", *metrics), "support")
    usual = {"support": "desc", "name": "asc"}.get(sort, "worst")
    order = asking.choice("order", _ORDERS, usual)
    least = asking.number("min_support", 0)
    wanted = asking.text("q").casefold()
    offset = asking.number("offset", 0)
    limit = asking.number("limit", 100, most=_MOST_ROWS)
    asking.finish()

    supported = [row for row in rows if row["support"] >= least]
    matching = [row for row in supported if wanted in row["name"].casefold()]
    ordered = _sorted(matching, sort, falls=_falls(sort, order, data["task"]))
    return {
        **about_window(data, window),
        "metrics": metrics,
        "sort": sort,
        "order": order,
        "all": len(rows),
        "below_support": len(rows) - len(supported),
        "matching": len(matching),
        "offset": offset,
        "limit": limit,
        "slices": ordered[offset : offset + limit],
    }


def _metrics(data: Data, window: str, rows: list[dict[str, Any]]) -> list[str]:
    return list(rows[0]["metrics"] if rows else data["reports"][window]["metrics"])


def _falls(sort: str, order: str, task: str) -> bool:
    """Whether large values come first."""
    if order in ("asc", "desc"):
        return order == "desc"
    direction = "none" if sort in ("support", "name") else find(sort, task).direction
    if direction == "none":
        raise RefusedError(
            400,
            expected="asc or desc",
            got=shown(order),
            where="order",
            remedy=f"no value of {sort} is better than another",
        )
    return (direction == "down") == (order == "worst")


def _sorted(rows: list[dict[str, Any]], sort: str, *, falls: bool) -> list[dict[str, Any]]:
    # Ties by support, then by name, whatever the order: so pages don't overlap.
    rows = sorted(rows, key=lambda row: (-row["support"], row["name"]))
    value: Callable[[Mapping[str, Any]], Any]
    if sort in ("support", "name"):
        value = lambda row: row[sort]  # noqa: E731 - two keys, one line each
    else:
        value = lambda row: row["metrics"].get(sort)  # noqa: E731
    defined = [row for row in rows if value(row) is not None]
    undefined = [row for row in rows if value(row) is None]
    return sorted(defined, key=value, reverse=falls) + undefined
