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
from streameval.service.config.evaluators import evaluator_of, main_metrics, window_spec_of
from streameval.service.config.load import load_settings, resolved, settings_from_text
from streameval.service.config.secrets import resolved_secrets, secret
from streameval.service.config.settings import (
    Duration,
    DurationOrZero,
    JoinSettings,
    RunSettings,
    WindowSettings,
    parsed,
)
from streameval.service.config.source_settings import HttpSettings
from streameval.windows import Fading, Panes
from streameval.windows.cumulative import Cumulative

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
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_and_how(text: str, message: str) -> None:
    refused = refusal(text)
    assert message in refused
    assert refused.startswith("run.toml: ")


TAKEN = [
    JOINED + "[files]\npredictions = ['a']\n[http]",
    JOINED + "[files]\npredictions = ['a']\n[kafka]\nlabels = 'b'\nproperties = "
    "{'bootstrap.servers' = 'b:9092'}",
    SCORE + "[evaluator]\npositive = 'spam'\nlabels = ['ham', 'spam']",
    "[fields]\ny_pred = 'p'\n[evaluator]\ntask = 'multiclass'\nmetrics = ['f1_macro']",
    SCORE + "[serve]\nlisten = '[::1]:0'",
    SCORE + "[serve]\nlisten = '0.0.0.0:80'\ntoken = 'env:TOKEN'",
    SCORE + "[webhook]\nurl = 'env:HOOK'",
    "\ufeff" * 0 + SCORE.replace("\n", "\r\n"),
    JOINED + "[fields.label]\nid = 'event.id'\ny_true = 'truth'",
    SCORE + "[evaluator]\nslices = [['a', 'b']]\n"
    "[[alert]]\nname = 'a'\nmetric = 'f1'\nbelow = 0.5\nslice = {b = 1, a = 'x'}",
]


@pytest.mark.parametrize("text", TAKEN, ids=range(len(TAKEN)))
def test_what_is_taken(text: str) -> None:
    settings = read(text)
    for window in settings.window:
        evaluator_of(settings, window)
    # Shown, it is a configuration again; only what is hidden differs.
    shown = tomllib.loads(resolved(settings))
    if "***" not in resolved(settings):
        assert msgspec.convert(shown, RunSettings, dec_hook=parsed) == settings


def test_overrides_are_written_as_toml_or_bare() -> None:
    text = JOINED + "[[window]]\nname = 'a'\n[[window]]\nname = 'b'\nlength = '1h'"
    settings = read(
        text,
        "join.wait=6h",
        "join.hot = 10",
        "window.1.pane=5m",
        "fields.weight=5",
        'store="a b.db"',
        "evaluator.slices=['x', ['x', 'y']]",
        "evaluator.positive=true",
        "kafka.properties.bootstrap.servers=localhost:9092",
        'kafka."properties"."client.id"=a=b',
        "kafka.records=clicks",
        "serve.listen=127.0.0.1:0",
        "serve.token=12345",
    )
    assert settings.join == JoinSettings(wait=Duration("6h"), hot=10)
    assert settings.window[1].pane == "5m"
    assert settings.fields.weight == "5"
    assert settings.store == "a b.db"
    assert settings.evaluator.slices == ["x", ["x", "y"]]
    assert settings.evaluator.positive is True
    assert settings.kafka.properties == {"bootstrap.servers": "localhost:9092", "client.id": "a=b"}
    assert settings.serve.listen == "127.0.0.1:0"
    assert settings.serve.token == "12345"


def test_a_list_of_tables_can_be_set_as_a_whole() -> None:
    (alert,) = read(SCORE, "alert=[{name = 'a', metric = 'f1', below = 0.5}]").alert
    assert (alert.name, alert.metric, alert.below) == ("a", "f1", 0.5)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("join.wait", "--set: expected KEY=VALUE, as join.wait=6h, got no key with a value"),
        ("a b=5", "--set: expected KEY=VALUE"),
        (
            "join.wat=5",
            "--set: join.wat: expected a key of join (wait, remember, hot, predictions, ",
        ),
        ("join.hot=many", "--set: join.hot: expected a whole number, got 'many'"),
        ("join.wait=soon", "--set: join.wait: expected a duration such as 90s"),
        ("window.3.name=a", "--set: window: expected a number below 1, one for each there is, got"),
        (
            "alert.0.metric=f1",
            "--set: alert: expected a list to set a part of, got none; write each [[alert]] in the "
            "file, or set all of them: 'alert=[{KEY = VALUE, …}, …]'",
        ),
        (
            "kafka.partitions.0=1",
            "--set: kafka.partitions: expected a list to set a part of, got n",
        ),
        ("evaluator.labels.0=a", "got none; set all of it: 'evaluator.labels=[…]'"),
        ("files.records.0=a", "got an empty one; set all of it: 'files.records=[…]'"),
        (
            "evaluator.slices=['a'",
            "--set: evaluator.slices: expected a value as in TOML, got one t",
        ),
        ("window.0.length=0s", "--set: window[0].length: expected a duration"),
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
    with pytest.raises(ConfigError, match="got No such file or directory; streameval init writes"):
        load_settings(path)
    with pytest.raises(ConfigError, match="got Is a directory"):
        load_settings(tmp_path)
    path.write_bytes(b"\na = 1\nb = '\xff'")
    with pytest.raises(ConfigError, match="expected UTF-8 text, got other bytes in line 3"):
        load_settings(path)
    path.write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="at most 1,048,576 bytes"):
        load_settings(path)
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
    for value, message in (
        ("env:A", "serve.token: expected the variable A in the environment, got none"),
        ("env:B", "serve.token: expected the variable B in the environment, got an empty one"),
        (f"file:{path}x", "got No such file or directory"),
        ("file:\0", "got no path"),
        (f"file:{tmp_path}", "got Is a directory"),
    ):
        with pytest.raises(ConfigError) as caught:
            secret(value, "serve.token", {"B": ""})
        assert message in str(caught.value)
    for data, message in ((b"\xff", "UTF-8"), (b"\n", "empty"), (b"x" * 70_000, "65536 bytes")):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            secret(f"file:{path}", "serve.token")


def test_windows_take_events_for_as_long_as_labels_are_waited_for() -> None:
    join = JoinSettings(wait=Duration("6h"))
    hour = WindowSettings(name="w", length=Duration("1h"), pane=Duration("5m"))
    assert window_spec_of(hour, join) == Panes("1h", "5m", "6h")
    assert window_spec_of(hour, None) == Panes("1h", "5m", "1h")
    exact = WindowSettings(
        name="w", length=Duration("1h"), lateness=DurationOrZero("0s"), retain=Duration("1d")
    )
    assert window_spec_of(exact, join) == Panes("1h", None, "0s", "1d")
    assert window_spec_of(WindowSettings(name="w", half_life=Duration("6h")), join) == Fading("6h")
    assert window_spec_of(WindowSettings(name="w"), join) == Cumulative()


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        (SCORE, "1d"),
        (JOINED + "wait = '7d'", "1d"),
        (JOINED + "wait = '24h'", "12h"),
        (JOINED + "wait = '1h'", "30m"),
        (JOINED + "wait = '1h'\n[[window]]\nname = 'w'\nlength = '1h'\npane = '5m'", "5m"),
        (SCORE + "[[window]]\nname = 'w'\nlength = '2h'", "2h"),
        (SCORE + "[[window]]\nname = 'w'\nhalf_life = '90s'", "90s"),
        ("[fields]\nscore = 's'\nid = 'i'\nahead = '5s'\n[join]\nwait = '1h'", "5s"),
        ("[fields]\nscore = 's'\nid = 'i'\nahead = '0s'\n[join]\nwait = '1us'", "0s"),
    ],
)
def test_how_far_ahead_a_record_may_be_follows_from_the_rest(text: str, ahead: str) -> None:
    assert read(text).fields.ahead == ahead


def test_an_evaluator_keeps_what_is_published_and_what_alerts_watch() -> None:
    alert = "[[alert]]\nname = 'a'\nmetric = 'roc_auc'\nbelow = 0.5\nslice = {c = 'x'}\n"
    settings = read(SCORE + "[evaluator]\nmetrics = ['f1']\nslices = ['c']\n" + alert)
    evaluator = evaluator_of(settings, settings.window[0])
    columns: dict[str, Any] = {
        "score": [0.9, 0.1],
        "event_time": [1, 2],
        "slices": {"c": ["x", "y"]},
    }
    evaluator.update_many([1, 0], **columns)
    assert (evaluator["f1"], evaluator["roc_auc"]) == (1.0, 1.0)
    assert main_metrics(settings) == ["f1", "roc_auc"]


def test_the_check_says_what_follows() -> None:
    settings = read(JOINED + "[[window]]\nname = 'h'\nlength = '1h'\n[serve]\ntoken = 'env:T'")
    text = check_text(settings, {"T": "hunter2-hunter2-hunter2"})
    assert "hunter2" not in text
    assert "max_scores = 65536\ninterval_sums = true\n" in text
    assert "# window h: the last 1h in panes of 1h, each taking events until 1d after" in text
    assert tomllib.loads(text)["join"] == {"wait": "24h", "hot": 500_000, "predictions": True}


HOOK = "[webhook]\nurl = 'env:URL'\ntoken = 'env:T'\n"
GOOD = {"T": "hunter2-hunter2-hunter2", "URL": "http://hooks.example/hunter2"}
BROKER = "[kafka]\nrecords = 'r'\n[kafka.properties]\n'bootstrap.servers' = 'b:1'\n"
LOGIN = BROKER + "'sasl.password' = 'env:NONE'\n"


@pytest.mark.parametrize(
    ("text", "environment", "message"),
    [
        ("[serve]\ntoken = 'env:T'", {}, "got none; set it, or name another"),
        ("[serve]\ntoken = 'env:T'", {"T": "hunter2"}, "serve.token: expected at least 16 charact"),
        (
            "[serve]\ntoken = 'file:/no/t'",
            {},
            "serve.token: expected a readable file /no/t, got",
        ),
        (
            HOOK,
            GOOD | {"URL": ""},
            "webhook.url: expected the variable URL in the environment",
        ),
        (HOOK, GOOD | {"URL": "hunter2"}, "webhook.url: expected an address http://"),
        (HOOK, GOOD | {"T": "hunter2-\u00e9"}, "webhook.token: expected printable ASCII text"),
        (LOGIN, {}, "kafka.properties.sasl.password: expected the variable NONE in the envi"),
        (
            "store = '/no such/run.db'\n",
            {},
            "store: expected a file in a directory that is there",
        ),
        ("store = '/'\n", {}, "store: expected the path of a file, got the directory /"),
    ],
)
def test_the_check_looks_for_what_is_named(
    text: str, environment: dict[str, str], message: str
) -> None:
    settings = read(text + SCORE if text.startswith("store") else SCORE + text)
    with pytest.raises(ConfigError) as caught:
        check_text(settings, environment)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_check_is_content_with_what_is_there() -> None:
    text = check_text(read(SCORE + HOOK + "[serve]\ntoken = 'env:T'"), GOOD)
    assert text.startswith("# This can be run.")
    assert "hunter2" not in text
    # The token of a server that is not enabled is not required.
    check_text(read(SCORE + "[files]\nrecords = ['a']\n[serve]\nenabled = false\ntoken = 'short'"))


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


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{k} = {as_toml(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    return msgspec.json.encode(value).decode() if value == value else "nan"


@settings(max_examples=200)
@given(st.one_of(st.text(), st.dictionaries(st.sampled_from(KEYS), TABLES)), st.text(max_size=9))
def test_nothing_but_config_errors(data: str | dict[str, Any], override: str) -> None:
    text = (
        data
        if isinstance(data, str)
        else "\n".join(f"{key} = {as_toml(value)}" for key, value in data.items())
    )
    for overrides in ((), (override,), (f"join.{override}",), (f"store={override}",)):
        try:
            resolved(read(text, *overrides))
        except ConfigError as error:
            message = str(error)
        else:
            message = ""
        assert "\n" not in message


def test_the_page_has_every_table() -> None:
    text = "".join(page.read_text("utf-8") for page in PAGES)
    marked = re.findall(r"^<!-- keys (\w+) -->$", text, re.MULTILINE)
    assert sorted(marked) == sorted(["run", *list(key_tables())[1:]])
    assert '| `join.wait` | `"24h"` | A label counts if' in key_tables()["join"]


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:8642", ("127.0.0.1", 8642), True),
        ("127.1.2.3:1", ("127.1.2.3", 1), True),
        ("[::1]:0", ("::1", 0), True),
        ("localhost.:1", ("localhost.", 1), True),
        ("localhost.evil.com:1", ("localhost.evil.com", 1), False),
        ("0.0.0.0:65535", ("0.0.0.0", 65535), False),
        ("[::]:80", ("::", 80), False),
        (":8642", None, False),
        ("localhost", None, False),
        ("::1:80", None, False),
        ("a b:1", None, False),
        ("a:65536", None, False),
        ("a:000001", None, False),
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


def test_a_key_that_looks_like_a_path_of_msgspec() -> None:
    assert refusal("'x` - at `$.join' = 1").startswith("run.toml: ")
    assert refusal("[join]\n'x` - at `$.a[...].b' = 1").startswith("run.toml: ")


def test_the_key_of_a_free_table_is_named() -> None:
    assert "fields.slices.b: expected text, got 5" in refusal("[fields.slices]\na = 'x'\nb = 5")
    assert "alert[0].slice.k: expected text or a whole number, got a list" in refusal(
        "[[alert]]\nname = 'a'\nmetric = 'f1'\nslice = {j = 1, k = []}"
    )
    assert "join.hot: expected a whole number of at least 1, got -99999999999999999999" in refusal(
        "[join]\nhot = -99999999999999999999"
    )


WINDOW = "[[window]]\nname = 'w'\n"
DURATIONS = {
    "checkpoint.every": (SCORE + "[checkpoint]\nevery = '{}'", False),
    "serve.ready_checkpoint_age": (SCORE + "[serve]\nready_checkpoint_age = '{}'", False),
    "fields.ahead": (SCORE + "ahead = '{}'", True),
    "join.wait": (JOINED + "wait = '{}'", False),
    "join.remember": (JOINED + "remember = '{}'", True),
    "webhook.timeout": (SCORE + "[webhook]\nurl = 'http://a'\ntimeout = '{}'", False),
    "window[0].length": (SCORE + WINDOW + "length = '{}'", False),
    "window[0].pane": (SCORE + WINDOW + "length = '1h'\npane = '{}'", False),
    "window[0].lateness": (SCORE + WINDOW + "length = '1h'\nlateness = '{}'", True),
    "window[0].retain": (SCORE + WINDOW + "length = '1h'\nretain = '{}'", False),
    "window[0].half_life": (SCORE + WINDOW + "half_life = '{}'", False),
    "alert[0].for": (SCORE + "[[alert]]\nname='a'\nmetric='f1'\nbelow=1\nfor='{}'", True),
}


@pytest.mark.parametrize("key", DURATIONS)
def test_every_duration_is_checked(key: str) -> None:
    text, zero = DURATIONS[key]
    for wrong in ("soon", "", "5", "99999999999w", *(() if zero else ("0s",))):
        refused = refusal(text.format(wrong))
        assert f"{key}: expected a duration such as 90s, 5m, 1h or 7d, got" in refused
    read(text.format("0s" if zero else "1h" if key != "window[0].retain" else "1d"))
