"""A configuration file: what is accepted, the errors of the rest, and what is hidden."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docsite.reference import key_tables
from streameval.cli.run import check_text
from streameval.errors import ConfigError, InputError
from streameval.service.config.address import Address
from streameval.service.config.evaluators import evaluator_of, main_metrics
from streameval.service.config.load import load_settings, resolved, settings_from_text
from streameval.service.config.secrets import resolved_secrets, secret
from streameval.service.config.settings import (
    Duration,
    JoinSettings,
    RunSettings,
    WindowSettings,
    parsed,
)
from streameval.service.config.source_settings import HttpSettings
from tests.support.run import as_toml

PAGES = [
    Path(__file__).parents[2] / "docs" / name
    for name in ("run.md", "run-join.md", "run-predictions.md")
]
SCORE = '[fields]\nscore = "s"\n'
JOINED = '[fields]\nscore = "s"\nid = "id"\n[join]\n'


def read(text: str, *overrides: str) -> RunSettings:
    return settings_from_text(text, "run.toml", overrides)


def refusal(text: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(text, *overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_least_configuration_listens_for_records() -> None:
    assert read(SCORE).http == HttpSettings()
    assert read(SCORE).window == [WindowSettings(name="all")]
    assert read(SCORE + '[files]\nrecords = ["a.jsonl"]').http is None


# All others, whole: tests/unit/test_option_errors.py. These texts hold words of Python, or would
# change with each new key.
REFUSED = [
    ("[sorce]", "sorce: expected a table or key of a run (store, intervals, evaluator, "),
    ("[[windows]]", "got the unknown 'windows'; write [[window]] for each"),
    ("x = ", "run.toml: expected TOML, got a fault: Invalid value (at"),
    ("x = " + "[" * 5000, "run.toml: expected TOML"),
    # Keys that look like paths of msgspec.
    ("'x` - at `$.join' = 1", ""),
    ("[join]\n'x` - at `$.a[...].b' = 1", ""),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_and_how(text: str, message: str) -> None:
    refused = refusal(text)
    assert message in refused
    assert refused.startswith("run.toml: ")


TAKEN = [
    JOINED + "[files]\npredictions = ['a']\n[http]\n[fields.label]\nid = 'event.id'",
    JOINED + "[files]\npredictions = ['a']\n[kafka]\nlabels = 'b'\nproperties = "
    "{'bootstrap.servers' = 'b:9092'}",
    SCORE + "[evaluator]\npositive = 'spam'\nlabels = ['ham', 'spam']",
    "[fields]\r\ny_pred = 'p'\n[evaluator]\ntask = 'multiclass'\nmetrics = ['f1_macro']",
    SCORE + "[evaluator]\nslices = [['a', 'b']]\n"
    "[[alert]]\nname = 'a'\nmetric = 'f1'\nbelow = 0.5\nslice = {b = 1, a = 'x'}",
    "[evaluator]\nmodels = ['a', 'b']\npaired_scores = true\n[fields.score]\na = 's'\nb = 't'",
]


@pytest.mark.parametrize("text", TAKEN, ids=range(len(TAKEN)))
def test_what_is_taken(text: str) -> None:
    settings = read(text)
    for window in settings.window:
        evaluator_of(settings, window)
    shown = tomllib.loads(resolved(settings))
    assert msgspec.convert(shown, RunSettings, dec_hook=parsed) == settings


def test_slices_are_shown_with_what_alerts_watch() -> None:
    alert = "[[alert]]\nname = 'a'\nmetric = 'roc_auc'\nbelow = 0.5\nslice = {c = 'x'}\n"
    settings = read(SCORE + "[evaluator]\nmetrics = ['f1']\nslices = ['c']\n" + alert)
    assert main_metrics(settings) == ["f1", "roc_auc"]


def test_overrides_are_written_as_toml_or_bare() -> None:
    text = JOINED.replace('"s"', "{a = 's', b = 't'}") + "[[window]]\nname = 'a'\n"
    text += "[[window]]\nname = 'b'\nlength = '1h'\n[evaluator]\nmodels = ['a', 'b']"
    settings = read(
        text,
        "join.wait=6h",
        "join.hot = 10",
        "window.1.pane=5m",
        "fields.weight=5",
        "fields.score.b=p.new",
        'store="a b.db"',
        "evaluator.slices=['x', ['x', 'y']]",
        "evaluator.positive=true",
        "kafka.properties.bootstrap.servers=localhost:9092",
        'kafka."properties"."client.id"=a=b',
        "kafka.records=clicks",
        "serve.listen=127.0.0.1:0",
        "serve.token=12345",
        "alert=[{name = 'a', metric = 'f1', below = 0.5}]",
    )
    assert settings.join == JoinSettings(wait=Duration("6h"), hot=10)
    assert (settings.window[1].pane, settings.fields.weight) == ("5m", "5")
    assert settings.fields.paths["score:b"] == "p.new"
    assert (settings.store, settings.evaluator.positive) == ("a b.db", True)
    assert settings.evaluator.slices == ["x", ["x", "y"]]
    assert settings.kafka.properties == {"bootstrap.servers": "localhost:9092", "client.id": "a=b"}
    assert (settings.serve.listen, settings.serve.token) == ("127.0.0.1:0", "12345")
    assert [(one.name, one.below) for one in settings.alert] == [("a", 0.5)]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("a b=5", "--set: expected KEY=VALUE"),
        ("join.wat=5", "--set: join.wat: expected a key of join (wait, remember, hot, predic"),
        ("join.hot=many", "--set: join.hot: expected a whole number, got 'many'"),
        ("window.3.name=a", "--set: window: expected a number below 1, one for each there is, got"),
        (
            "alert.0.metric=f1",
            "--set: alert: expected a list to set a part of, got none; write each [[alert]] in the "
            "file, or set all of them: 'alert=[{KEY = VALUE, …}, …]'",
        ),
        ("evaluator.labels.0=a", "got none; set all of it: 'evaluator.labels=[…]'"),
        ("files.records.0=a", "got an empty one; set all of it: 'files.records=[…]'"),
        ("evaluator.slices=['a'", "--set: evaluator.slices: expected a value as in TOML, got one"),
        ("serve.token.x=hunter2", "--set: serve.token: expected no key inside it, got 'x'"),
    ],
)
def test_the_error_of_a_bad_override_names_the_option(override: str, message: str) -> None:
    text = (
        JOINED + "wait = '1h'\n[files]\nrecords = []\n[serve]\ntoken = 't'\n[[window]]\nname = 'a'"
    )
    assert message in refusal(text, override)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    for file, data, message in (
        (path, None, "got No such file or directory; streameval init writes"),
        (tmp_path, None, "got Is a directory"),
        (path, b"\na = 1\nb = '\xff'", "expected UTF-8 text, got other bytes in line 3"),
        (path, b"#" * (2 << 20), "at most 1,048,576 bytes"),
    ):
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            load_settings(file)
    path.write_text("\ufeff" + SCORE, encoding="utf-8")
    assert load_settings(path) == read(SCORE)


SECRETS = """
[fields]
score = "s"
[serve]
token = "hunter2-serve-0123"
[kafka]
records = "a"
[kafka.properties]
"bootstrap.servers" = "broker:9092"
"sasl.username" = "me"
"sasl.password" = "hunter2-sasl"
"ssl.key.pem" = "hunter2-key"
"sasl.jaas.config" = "hunter2-jaas"
"client.rack" = "env:hunter2-named"
[webhook]
url = "https://me:hunter2-user@hooks.example/hunter2-path?key=hunter2-query"
token = "hunter2-webhook"
"""


def test_secrets_are_not_shown() -> None:
    for text in (resolved(read(SECRETS)), check_text(read(SECRETS), {"hunter2-named": "hunter2"})):
        assert "hunter2" not in text
        assert text.count("***") >= 7
        assert "https://***@hooks.example/***" in text
        assert "broker:9092" in text
        assert tomllib.loads(text)["kafka"]["properties"]["sasl.username"] == "me"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('token = "hunter2-serve-0123"', "token = 77777"),
        ('"sasl.password" = "hunter2-sasl"', '"sasl.password" = ["hunter2"]'),
        ("https://me", "hunter2://me"),
        ("hooks.example", "hooks.example:hunter2"),
    ],
)
def test_no_error_tells_a_secret(old: str, new: str) -> None:
    assert old in SECRETS
    message = refusal(SECRETS.replace(old, new))
    assert "hunter2" not in message
    assert "77777" not in message


def test_where_secrets_come_from(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("hunter2\n")
    assert secret(f"file:{path}", "serve.token") == "hunter2"
    assert secret("env:A", "serve.token", {"A": "hunter2"}) == "hunter2"
    assert secret("a:b", "serve.token") == "a:b"
    for value, data, message in (
        ("env:A", b"", "serve.token: expected the variable A in the environment, got none"),
        ("env:B", b"", "serve.token: expected the variable B in the environment, got an empty one"),
        (f"file:{path}x", b"", "got No such file or directory"),
        ("file:\0", b"", "got no path"),
        (f"file:{tmp_path}", b"", "got Is a directory"),
        (f"file:{path}", b"\xff", "UTF-8"),
        (f"file:{path}", b"\n", "empty"),
        (f"file:{path}", b"x" * 70_000, "65536 bytes"),
    ):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            secret(value, "serve.token", {"B": ""})


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        (JOINED + "wait = '7d'", "1d"),
        (JOINED + "wait = '1h'\n[[window]]\nname = 'w'\nlength = '1h'\npane = '5m'", "5m"),
        (JOINED + "wait = '1us'\n[[window]]\nname = 'w'\nhalf_life = '90s'", "0s"),
        (SCORE + "[[window]]\nname = 'w'\nhalf_life = '90s'", "90s"),
    ],
)
def test_how_far_ahead_a_record_may_be_follows_from_the_rest(text: str, ahead: str) -> None:
    assert read(text).fields.ahead == ahead


HOOK = "[webhook]\nurl = 'env:URL'\ntoken = 'env:T'\n"
GOOD = {"T": "hunter2-hunter2-hunter2", "URL": "http://hooks.example/hunter2"}
BROKER = "[kafka]\nrecords = 'r'\n[kafka.properties]\n'bootstrap.servers' = 'b:1'\n"
LOGIN = BROKER + "'sasl.password' = 'env:NONE'\n"


def test_the_check_says_what_follows() -> None:
    text = JOINED + "[[window]]\nname = 'h'\nlength = '1h'\n[serve]\ntoken = 'env:T'\n" + HOOK
    shown = check_text(read(text), GOOD)
    assert "hunter2" not in shown
    assert shown.startswith("# This can be run.")
    assert "max_scores = 65536\ninterval_sums = true\n" in shown
    alert = "[[alert]]\nname = 'a'\nmetric = 'f1'\nabove = 0.5\nwhen = '{}'\n"
    for when, kept in (("value", "false"), ("certain", "true")):  # without intervals elsewhere
        one = check_text(read("intervals = false\n" + text + alert.format(when)), GOOD)
        assert f"interval_sums = {kept}\n" in one
    assert "# window h: the last 1h in panes of 1h, each taking events until 1d after" in shown
    assert tomllib.loads(shown)["join"] == {"wait": "24h", "hot": 500_000, "predictions": True}
    # The token of a server that is not enabled is not required.
    check_text(read(SCORE + "[files]\nrecords = ['a']\n[serve]\nenabled = false\ntoken = 'short'"))


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("[serve]\ntoken = 'env:T'", {}, "got none; set it, or name another"),
        ("[serve]\ntoken = 'env:T'", {"T": "hunter2"}, "serve.token: expected at least 16 charact"),
        ("[serve]\ntoken = 'file:/no/t'", {}, "serve.token: expected a readable file /no/t, got"),
        (HOOK, GOOD | {"URL": ""}, "webhook.url: expected the variable URL in the environment"),
        (HOOK, GOOD | {"URL": "hunter2"}, "webhook.url: expected an address http://"),
        (HOOK, GOOD | {"T": "hunter2-\u00e9"}, "webhook.token: expected printable ASCII text"),
        (LOGIN, {}, "kafka.properties.sasl.password: expected the variable NONE in the envi"),
        ("store = '/no such/run.db'\n", {}, "store: expected a file in a directory that is there"),
        ("store = '/'\n", {}, "store: expected the path of a file, got the directory /"),
    ],
)
def test_the_check_looks_for_what_is_named(
    text: str, environment: dict[str, str], message: str
) -> None:
    settings = read(text + SCORE if text.startswith("store") else SCORE + text)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        check_text(settings, environment)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_secret_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(GOOD["T"])
    resolve = resolved_secrets(read(SCORE + f"[serve]\ntoken = 'file:{path}'"))
    path.unlink()  # as from a pipe
    assert resolve(f"file:{path}", "serve.token") == GOOD["T"]


# Any text at all, and any values under the keys there are.
KEYS = ["store", "evaluator", "window", "fields", "join", "name", "wait", "score", "id", "alert"]
TABLES = st.recursive(
    st.one_of(st.text(max_size=3), st.integers(), st.floats(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(KEYS), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.one_of(st.text(), st.dictionaries(st.sampled_from(KEYS), TABLES)), st.text(max_size=9))
def test_nothing_but_config_errors(data: str | dict[str, Any], override: str) -> None:
    text = data if isinstance(data, str) else as_toml(data)
    for overrides in ((), (override,), (f"join.{override}",), (f"store={override}",)):
        message = ""
        try:
            resolved(read(text, *overrides))
        except ConfigError as error:
            message = str(error)
        assert "\n" not in message


def test_the_page_has_every_table() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    marked = re.findall(r"^<!-- keys (\w+) -->$", text, re.MULTILINE)
    assert sorted(marked) == sorted(["run", *list(key_tables())[1:]])
    assert '| `join.wait` | `"24h"` | A label counts if' in key_tables()["join"]


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.1.2.3:1", ("127.1.2.3", 1), True),
        ("[::1]:0", ("::1", 0), True),
        ("localhost.:1", ("localhost.", 1), True),
        ("localhost.evil.com:1", ("localhost.evil.com", 1), False),
        ("0.0.0.0:65535", ("0.0.0.0", 65535), False),
        (":8642", None, False),
        ("localhost", None, False),
        ("::1:80", None, False),
        ("a b:1", None, False),
        ("a:65536", None, False),
        ("a:\u0661", None, False),
    ],
)
def test_addresses_to_listen_on(text: str, address: tuple[str, int] | None, loopback: bool) -> None:
    if address is None:
        with pytest.raises(InputError, match=r"address: expected HOST:PORT"):
            Address(text)
        assert "serve.listen: expected HOST:PORT" in refusal(SCORE, f'serve.listen="{text}"')
        return
    found = Address(text)
    assert ((found.host, found.port), found.loopback) == (address, loopback)
    # The configuration and the server have one rule.
    token = 'serve.token="a token of more than 16"'
    assert read(SCORE, f'serve.listen="{text}"', token).serve.listen == text
    again = Address.of(*address)
    assert (again.host, again.port) == address


WITH_ALL = (
    JOINED + "[webhook]\nurl = 'http://a'\n[[window]]\nname = 'w'\nlength = '1h'\n"
    "[[alert]]\nname = 'a'\nmetric = 'f1'\nbelow = 1"
)
POSITIVE = ("checkpoint.every", "serve.ready_checkpoint_age", "join.wait", "webhook.timeout")
POSITIVE += ("window.0.length", "window.0.pane", "window.0.retain", "window.0.half_life")


@pytest.mark.parametrize(
    "key", [*POSITIVE, "fields.ahead", "join.remember", "window.0.lateness", "alert.0.for"]
)
def test_every_duration_is_checked(key: str) -> None:
    named = key.replace(".0", "[0]")
    for wrong in ("soon", "99999999999w", *["0s"] * (key in POSITIVE)):
        refused = refusal(WITH_ALL, f"{key}={wrong}")
        assert f"{named}: expected a duration such as 90s, 5m, 1h or 7d, got" in refused
    if key not in POSITIVE:
        read(WITH_ALL, f"{key}=0s")
