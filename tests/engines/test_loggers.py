"""Evaluators in MLflow, TensorBoard, torchmetrics, Lightning and Ray."""

from __future__ import annotations

import os
import pickle
import re
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest

import streameval as se

PAGE = Path(__file__).parents[2] / "docs" / "loggers.md"
EXAMPLES = re.findall(r"## (\w+).*?```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

pytestmark = pytest.mark.filterwarnings("default")  # of the packages themselves


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tmp_path.joinpath("mlruns").as_uri())


@pytest.fixture
def ev() -> se.Evaluator:
    ev = se.Evaluator()
    ev.update_many([1, 0, 1, 0], score=[0.9, 0.4, 0.35, 0.1])
    return ev


def batch(seed: int, size: int = 200) -> tuple[Any, Any]:
    import torch

    draws = torch.Generator().manual_seed(seed)
    scores = torch.rand(size, generator=draws, dtype=torch.float64)
    return scores, (torch.rand(size, generator=draws) < scores).long()


def counted(*batches: tuple[Any, Any]) -> se.Evaluator:
    ev = se.Evaluator()
    for scores, labels in batches:
        ev.update_many(labels.numpy(), score=scores.numpy())
    return ev


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_the_examples_of_the_page(code: str) -> None:
    exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})


def test_mlflow_has_the_numbers_and_the_state(ev: se.Evaluator) -> None:
    import mlflow

    from streameval.integrations.mlflow import load_evaluation, log_evaluation

    with mlflow.start_run() as run:
        logged = log_evaluation(ev, ["roc_auc"], prefix="a/", step=3)
        assert log_evaluation(se.Evaluator(), ["roc_auc"], artifact=None) == {}  # undefined
    assert logged == {"a/roc_auc": 0.75}
    client = mlflow.MlflowClient()
    [metric] = client.get_metric_history(run.info.run_id, "a/roc_auc")
    assert (metric.value, metric.step) == (0.75, 3)
    again = load_evaluation(run.info.run_id)
    assert again == ev
    again.merge(counted(batch(1)))
    assert again["support"] > ev["support"]


@pytest.mark.parametrize("given", ["directory", "writer"])
def test_tensorboard_has_the_scalars(ev: se.Evaluator, given: str, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboardX import SummaryWriter

    from streameval.integrations.tensorboard import log_evaluation

    target = str(tmp_path) if given == "directory" else SummaryWriter(str(tmp_path))
    assert log_evaluation(target, ev, 2, ["roc_auc"], prefix="a/") == {"a/roc_auc": 0.75}
    if given == "writer":
        target.close()  # type: ignore[union-attr]
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("a/roc_auc")] == [(2, 0.75)]


def test_torchmetrics_counts_batches_and_gives_that_of_each() -> None:
    from streameval.integrations.torchmetrics import StreamevalMetric

    metric = StreamevalMetric("roc_auc", "f1")
    for seed in (1, 2):
        values = metric(*batch(seed))
        assert values["roc_auc"] == counted(batch(seed))["roc_auc"]
    whole = counted(batch(1), batch(2))
    assert metric.compute() == {name: whole[name] for name in ("roc_auc", "f1")}
    assert metric.evaluator["f1"] == whole["f1"]
    again = StreamevalMetric("roc_auc", "f1")
    again.load_state_dict(metric.state_dict())
    assert again.compute() == metric.compute() == pickle.loads(pickle.dumps(metric)).compute()
    copy = metric.clone()
    metric.reset()
    assert metric.evaluator.confusion.total == 0
    assert copy.compute() == again.compute()


def test_torchmetrics_counts_classes_and_labels() -> None:
    import torch

    from streameval.integrations.torchmetrics import StreamevalMetric

    columns = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.5, 0.4], [0.1, 0.1, 0.8]])
    metric = StreamevalMetric("top_k_accuracy", task="multiclass", labels=range(3))
    metric.update(columns.double(), torch.tensor([0, 1, 2, 2]))
    assert metric.compute() == 1
    labels = StreamevalMetric("accuracy")
    labels.update(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 1]))
    assert labels.compute() == pytest.approx(2 / 3)


def _rank(rank: int, port: int, folder: str) -> None:
    import torch.distributed as dist

    from streameval.integrations.torchmetrics import StreamevalMetric

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    metric = StreamevalMetric("roc_auc", "f1")
    metric.update(*batch(rank, size=100 + 50 * rank))
    first = {name: float(value) for name, value in metric.compute().items()}
    metric.update(*batch(9))
    second = {name: float(value) for name, value in metric.compute().items()}
    total = metric.evaluator.confusion.total
    Path(folder, str(rank)).write_bytes(pickle.dumps((first, second, total)))
    dist.destroy_process_group()


def test_ranks_have_the_number_of_all_events(tmp_path: Path) -> None:
    import torch.multiprocessing

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    torch.multiprocessing.spawn(_rank, args=(port, str(tmp_path)), nprocs=2)
    parts = [batch(0, size=100), batch(1, size=150)]
    wanted = [counted(*parts), counted(*parts, batch(9), batch(9))]
    for rank, own in enumerate((300, 350)):
        first, second, total = pickle.loads((tmp_path / str(rank)).read_bytes())
        assert [first, second] == [{key: ev[key] for key in ("roc_auc", "f1")} for ev in wanted]
        assert total == own  # a rank goes on with its own events


def test_lightning_logs_the_metric() -> None:
    import lightning
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from streameval.integrations.torchmetrics import StreamevalMetric

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.auc = StreamevalMetric("roc_auc")
            self.nothing = torch.nn.Linear(1, 1)

        def validation_step(self, rows: Any) -> None:
            self.auc(*rows)
            self.log("auc", self.auc, on_step=False, on_epoch=True)

    scores, labels = batch(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu"
        )
        [found] = trainer.validate(
            Model(), DataLoader(TensorDataset(scores, labels), batch_size=64), verbose=False
        )
    assert found["auc"] == pytest.approx(counted((scores, labels))["roc_auc"], abs=1e-7)
