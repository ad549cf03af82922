"""Files on a web server and in an S3 store, read over sockets, give the bytes of local ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import streameval as se
from streameval.state_files.codec import decompressed
from tests.support.carried_events import CASES
from tests.support.table_carriers import CARRIERS

pytest.importorskip("aiohttp", reason="NOT TESTED: aiohttp is not installed")
boto3 = pytest.importorskip("boto3", reason="NOT TESTED: boto3 is not installed")
pytest.importorskip("s3fs", reason="NOT TESTED: s3fs is not installed")
moto = pytest.importorskip("moto.server", reason="NOT TESTED: moto is not installed")

# The clients' own: dates without a zone, and sockets that are closed with the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore")

CASE = CASES["labels of numbers, weights and slices"]
OPTIONS = [
    *("--y-true", "label", "--y-pred", "predicted", "--weight", "weight", "--task", "binary"),
    *("--slice", "country,country+model", "--intervals", "0.95", "--no-progress"),
]
NAMES = ("events.parquet", "events.csv", "events.jsonl", "part-*.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The events as files of all kinds, and in parts."""
    made = tmp_path_factory.mktemp("remote")
    for carrier in ("parquet", "csv", "jsonl", "glob"):
        CARRIERS[carrier](CASE.table(), made)
    return made


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder and its listing; of a file only as a whole, as simple servers do."""

    def log_message(self, *of: Any) -> None:
        pass


@pytest.fixture(scope="module")
def web(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def bucket(folder: Path) -> Iterator[str]:
    """A bucket with the files; its server and credentials are named in the environment."""
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "of-the-test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        client = boto3.client("s3")
        client.create_bucket(Bucket="events")
        for path in folder.iterdir():
            client.upload_file(str(path), "events", f"may/{path.name}")
        client.close()
        yield "s3://events/may"
    server.stop()


@pytest.fixture(params=["web", "bucket"])
def place(request: pytest.FixtureRequest) -> str:
    """Where the files are, as the beginning of their URLs."""
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_files_at_urls_give_the_bytes_of_local_ones(place: str, name: str) -> None:
    assert se.evaluate(f"{place}/{name}", **CASE.call).to_bytes() == CASE.state()


def test_a_list_of_urls_and_paths(web: str, bucket: str, folder: Path) -> None:
    parts = sorted(path.name for path in folder.glob("part-*.parquet"))
    places = [web, bucket, str(folder)]
    mixed = [f"{places[number % 3]}/{name}" for number, name in enumerate(parts)]
    assert se.evaluate(mixed, **CASE.call).to_bytes() == CASE.state()


def test_the_command_reads_urls(place: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streameval.cli", "evaluate", f"{place}/part-*.parquet"]
    state = tmp_path / "state"
    done = subprocess.run(
        [*command, *OPTIONS, "--save", str(state)], capture_output=True, text=True, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert decompressed(state.read_bytes()) == CASE.state()


def test_what_is_not_there_is_one_sentence(place: str, bucket: str) -> None:
    pattern = "none-*.csv: expected a pattern that some file matches, got no match"
    for url, text in (
        (f"{place}/none.csv", f"{place}/none.csv: expected a file"),
        (f"{place}/none.parquet", f"{place}/none.parquet: expected a file"),
        (f"{place}/none-*.csv", f"{place}/{pattern}"),
        ("http://127.0.0.1:9/a.csv", "http://127.0.0.1:9/a.csv: expected a file"),
        ("s3://of-no-one/a.csv", "s3://of-no-one/a.csv: expected a file"),
    ):
        with pytest.raises(se.InputError) as raised:
            se.evaluate(url, **CASE.call)
        assert str(raised.value).startswith(text)
        assert "\n" not in str(raised.value)
