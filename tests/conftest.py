"""Set-up of every test run: markers by folder, Hypothesis profiles, a summary of skips."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests.examples import FAST, limit_examples

# A deadline for each example would measure the machine, not the code.
settings.register_profile("streameval", deadline=None)
settings.load_profile("streameval")

# The folder of each test module, until the modules lie in folders; unit unless listed.
_FOLDERS = {
    "test_curves": "properties",
    "test_cut_points": "properties",
    "test_golden": "properties",
    "test_labels_sklearn": "properties",
    "test_laws_confusion": "properties",
    "test_laws_evaluator": "properties",
    "test_laws_score_index": "properties",
    "test_laws_sums": "properties",
    "test_metrics_labels": "properties",
    "test_metrics_multiclass": "properties",
    "test_metrics_probability": "properties",
    "test_metrics_ranking": "properties",
    "test_registry": "properties",
    "test_river": "properties",
    "test_windows_oracle": "properties",
    "test_windows_shards": "properties",
    "test_windows_stateful": "properties",
    "test_cli_bad_input": "cli",
    "test_cli_docs": "cli",
    "test_cli_evaluate": "cli",
    "test_cli_init": "cli",
    "test_cli_run": "cli",
    "test_cli_start": "cli",
    "test_cli_states": "cli",
    "test_cli_store": "cli",
    "test_cli_windows": "cli",
    "test_checkpoint_policy": "service",
    "test_counting": "service",
    "test_coverage": "service",
    "test_demo": "service",
    "test_evolution": "service",
    "test_inbox": "service",
    "test_label_join": "service",
    "test_lateness": "service",
    "test_predictions_first": "service",
    "test_run_alerts": "service",
    "test_run_config": "service",
    "test_run_records": "service",
    "test_run_webhook": "service",
    "test_runner": "service",
    "test_runner_join": "service",
    "test_serve_api": "service",
    "test_serve_guard": "service",
    "test_serve_limits": "service",
    "test_serve_live": "service",
    "test_serve_posts": "service",
    "test_serve_prometheus": "service",
    "test_source_files": "service",
    "test_source_kafka": "service",
    "test_source_rows": "service",
    "test_store": "service",
    "test_waiting": "service",
    "test_dashboard": "browser",
    "test_backup": "crash",
    "test_hostile": "crash",
    "test_kill": "crash",
    "test_no_room": "crash",
    "test_state_file_fuzz": "crash",
    "test_store_damage": "crash",
}


def folder_of(item: pytest.Item) -> str:
    """The marker of a test: the folder of tests/ that its module lies in."""
    below = item.path.relative_to(item.config.rootpath / "tests")
    return below.parts[0] if len(below.parts) > 1 else _FOLDERS.get(item.path.stem, "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder; under the fast profile, lower the number of examples."""
    for item in items:
        item.add_marker(folder_of(item))
        if settings.default == FAST:
            limit_examples(item, FAST.max_examples)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write why tests were skipped, once for each reason: what was not tested is not overlooked."""
    counts: dict[str, int] = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        counts[reason] = counts.get(reason, 0) + 1
    for reason, count in sorted(counts.items()):
        missing = reason.startswith(("NOT TESTED", "could not import"))
        text = reason if missing else f"skipped: {reason}"
        terminalreporter.write_line(f"{text} ({count} tests)", yellow=missing, bold=missing)


@pytest.fixture
def forced_switches() -> Iterator[None]:
    """Switch threads after a few Python steps instead of 5 ms."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
