"""The files of deploy/: parsed, and their commands run with their environment and signals."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import streameval
from streameval.service.config.load import settings_from_text
from streameval.service.store.store import store_exists
from tests.support.brokers import Broker, free_port, running_broker
from tests.support.command_runs import COMMAND
from tests.support.postgres_server import Postgres
from tests.support.run import events

DEPLOY = Path(streameval.__file__).parents[1] / "deploy"
TOKEN = "a-token-of-twenty-two"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


COMPOSE = documents("compose.yaml")[0]
KUSTOMIZATION = documents("kubernetes/kustomization.yaml")[0]
OBJECTS = [one for name in KUSTOMIZATION["resources"] for one in documents(f"kubernetes/{name}")]
CONTAINERS = {
    f"{document['kind']} {container['name']}": (document, container)
    for document in OBJECTS
    if document["kind"] in ("StatefulSet", "Deployment")
    for container in document["spec"]["template"]["spec"]["containers"]
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker() as one:
        one.make_topic("events", 2)
        yield one


def test_the_configurations_are_configurations() -> None:
    for folder in ("compose", "kubernetes"):
        settings = settings_from_text((DEPLOY / folder / "run.toml").read_text())
        assert settings.kafka.assignment == "group"
        assert settings.serve.probes == "0.0.0.0:8643"


def test_containers_of_kubernetes_are_restricted_and_probed() -> None:
    assert list(CONTAINERS) == ["StatefulSet worker", "Deployment serve"]
    for document, container in CONTAINERS.values():
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        paths = [container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")]
        assert paths == ["/livez", "/readyz"]
        labels = document["spec"]["template"]["metadata"]["labels"]
        assert document["spec"]["selector"]["matchLabels"] == labels
    names = {key: one["secretKeyRef"]["name"] for key, one in _secrets().items()}
    assert names == {"PGPASSWORD": "streameval", "STREAMEVAL_TOKEN": "streameval"}


def test_pods_of_kubernetes_are_pinned_and_closed() -> None:
    (image,) = KUSTOMIZATION["images"]
    assert (image["name"], image["newTag"]) == ("streameval", streameval.__version__)
    (config,) = KUSTOMIZATION["configMapGenerator"]
    assert all((DEPLOY / "kubernetes" / name).is_file() for name in config["files"])
    policies = [one["spec"] for one in OBJECTS if one["kind"] == "NetworkPolicy"]
    settings = (DEPLOY / "kubernetes/run.toml").read_text()
    for document, container in CONTAINERS.values():
        pod = document["spec"]["template"]
        labels = pod["metadata"]["labels"].items()
        assert container["image"] == image["name"]
        assert pod["spec"]["volumes"] == [{"name": "config", "configMap": {"name": config["name"]}}]
        mine = [one for one in policies if one["podSelector"]["matchLabels"].items() <= labels]
        assert {each for one in mine for each in one["policyTypes"]} == {"Ingress", "Egress"}
        inwards = [rule["ports"] for one in mine for rule in one.get("ingress", ())]
        assert [port["port"] for (port,) in inwards] == ["http"] * (container["name"] == "serve")
        for rule in (rule for one in mine for rule in one["egress"] if "to" in rule):
            (peer,) = rule["to"]
            name = peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            assert name == "kube-system" or f".{name}.svc" in settings


def test_prometheus_scrapes_the_service_with_the_token_of_the_pods() -> None:
    (monitor,) = documents("kubernetes/servicemonitor.yaml")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in OBJECTS if one["kind"] == "Service"]
    (service,) = (one for one in services if wanted <= one["metadata"].get("labels", {}).items())
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    token = _secrets()["STREAMEVAL_TOKEN"]["secretKeyRef"]
    assert endpoint["authorization"]["credentials"] == token


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="NOT TESTED: no kubectl is installed")
def test_a_change_of_the_configuration_rolls_the_pods(tmp_path: Path) -> None:
    def names(comment: str) -> set[str]:
        with (tmp_path / "kubernetes/run.toml").open("a") as file:
            file.write(comment)
        made = subprocess.run(
            ["kubectl", "kustomize", tmp_path / "kubernetes"], capture_output=True, check=True
        )
        objects = list(yaml.safe_load_all(made.stdout))
        image = KUSTOMIZATION["images"][0]
        pods = [
            one["spec"]["template"]["spec"] for one in objects if "replicas" in one.get("spec", {})
        ]
        for pod in pods:
            (container,) = pod["containers"]
            assert container["image"] == f"{image['newName']}:{image['newTag']}"
        found = {pod["volumes"][0]["configMap"]["name"] for pod in pods}
        assert found == {one["metadata"]["name"] for one in objects if one["kind"] == "ConfigMap"}
        return found

    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    assert len(names("") | names("# another\n")) == 2


def _secrets() -> dict[str, Any]:
    return {
        variable["name"]: variable["valueFrom"]
        for _, container in CONTAINERS.values()
        for variable in container["env"]
        if "secretKeyRef" in variable["valueFrom"]
    }


def test_files_that_compose_mounts_exist() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).is_file(), volume
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"])
    rules = documents("compose/prometheus.yml")[0]["rule_files"]
    assert f"/etc/prometheus/{rules[0]}:ro" in str(COMPOSE["services"]["prometheus"]["volumes"])


@pytest.mark.parametrize("name", ["streameval", "streameval-serve"])
def test_units_of_systemd_start_the_command_and_wait_for_its_checkpoint(name: str) -> None:
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(DEPLOY / f"systemd/{name}.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "streameval"
    assert arguments[0] == {"streameval": "run", "streameval-serve": "serve"}[name]
    assert int(unit["Service"]["TimeoutStopSec"]) >= 45
    assert unit["Service"]["ProtectSystem"] == "strict"


class Contained:
    """A command of a file as its container runs it: a home and a directory nobody can write to."""

    def __init__(self, here: Path, arguments: list[str], config: Path, *options: str) -> None:
        self.port, self.probes = free_port(), free_port()
        root = here / "root"
        root.mkdir(0o555, exist_ok=True)
        given = [str(config) if one == "/etc/streameval/run.toml" else one for one in arguments]
        set_here = [f"serve.listen=127.0.0.1:{self.port}", f"serve.probes=127.0.0.1:{self.probes}"]
        given += [part for one in (*set_here, *options) for part in ("--set", one)]
        name = f"worker-{self.port}"
        kept = {key: os.environ[key] for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ}
        kept |= dict.fromkeys(("HOME", "TMPDIR"), str(root)) | dict.fromkeys(
            ("POD_NAME", "HOSTNAME"), name
        )
        kept |= {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
        kept |= {"PGPASSWORD": "unused", "STREAMEVAL_TOKEN": TOKEN}
        self.process = subprocess.Popen(
            [*COMMAND, *given],
            cwd=root,
            env=kept,
            stderr=subprocess.PIPE,
        )

    def answers(self, port: int, path: str, token: str = "") -> int:
        """The status; 0 where nothing listens."""
        try:
            return self.get(port, path, token).status_code
        except httpx.TransportError:
            return 0

    def get(self, port: int, path: str, token: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.get(f"http://127.0.0.1:{port}{path}", headers=headers, timeout=20)

    @property
    def events(self) -> int:
        answer = self.get(self.port, "/api/status", TOKEN)
        return int(answer.json()["run"]["checkpoint"]["events"])

    def wait(self, port: int, path: str) -> None:
        until(lambda: self.answers(port, path) == 200 or self.process.poll() is not None)
        assert self.process.poll() is None, path

    def ends(self, seconds: float) -> list[dict[str, Any]]:
        """SIGTERM, and the log of a process that ended with 0 in time."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, log
        return [json.loads(line) for line in log.splitlines()]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.heavy
def test_a_worker_and_a_server_start_are_ready_and_end_as_their_containers_do(
    tmp_path: Path, broker: Broker, postgres: Postgres
) -> None:
    (row,) = events(1)
    body = json.dumps({key: row[key] for key in ("id", "y_true", "score", "country", "time")})
    broker.send("events", [(b"k", body.encode(), n % 2) for n in range(100)])
    store = postgres.address("deployed")
    config = tmp_path / "run.toml"
    text = (DEPLOY / "compose/run.toml").read_text()
    config.write_text(text.replace("postgresql://streameval@postgres/streameval", store))
    services = COMPOSE["services"]
    kafka = {
        "bootstrap.servers": broker.bootstrap,
        # Tansu takes half of it until it assigns.
        "session.timeout.ms": "6000" if broker.keeps_data else "1000",
        "heartbeat.interval.ms": "100",
    }
    given = [f'kafka.properties."{name}"={value}' for name, value in kafka.items()]
    grace = float(services["worker"]["stop_grace_period"].rstrip("s"))
    _, pod = CONTAINERS["StatefulSet worker"]
    assert pod["args"] == services["worker"]["command"]
    with ExitStack() as ends:
        worker = Contained(tmp_path, services["worker"]["command"], config, *given)
        ends.callback(worker.process.kill)
        worker.wait(worker.probes, pod["readinessProbe"]["httpGet"]["path"])
        assert worker.answers(worker.probes, "/livez") == 200
        assert worker.answers(worker.probes, "/metrics") == 404
        # A container that is started again until the first worker has made a store.
        until(lambda: store_exists(store))
        server = Contained(tmp_path, services["serve"]["command"], config)
        ends.callback(server.process.kill)
        server.wait(server.port, "/readyz")
        assert server.answers(server.port, "/metrics") == 401
        until(lambda: server.events == 100)
        assert server.answers(server.port, "/livez") == 200
        assert worker.ends(grace)[-1]["message"].startswith("ended after a checkpoint")
        assert server.ends(grace)[0].keys() >= {"time", "level", "logger", "message"}
        assert not list((tmp_path / "root").iterdir())
