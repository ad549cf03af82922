"""The commands, and what becomes of their errors."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streameval import __version__
from streameval.command_line.catalogue import metrics
from streameval.command_line.demo import demo
from streameval.command_line.evaluate import evaluate
from streameval.command_line.init import init
from streameval.command_line.output import BAD_INPUT, FAILURE, TargetError, say
from streameval.command_line.run import run as run_command
from streameval.command_line.states import merge, report
from streameval.command_line.stdout import write
from streameval.command_line.store import store_app
from streameval.errors import MissingExtraError, SourceError, StoreError, StreamevalError
from streameval.states.score_index import backend

__all__ = ["run"]

# Typer carries its own copy of click or uses the installed one, by its version.
# Both have this class, and bad usage of every kind is one.
_UsageError: Any = typer.BadParameter.__bases__[0]

_INTERRUPTED = 130  # typer's answer to Ctrl-C; no command here exits with it

app = typer.Typer(
    name="streameval",
    help="Exact evaluation of classifiers from the stream of their predictions.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(evaluate)
app.command()(merge)
app.command()(report)
app.command()(metrics)
app.command("run")(run_command)
app.add_typer(store_app, name="store")
app.command()(init)
app.command()(demo)


def _print_version(wanted: bool) -> None:
    if wanted:
        write(f"streameval {__version__} ({backend()} score index)")
        raise typer.Exit


@app.callback()
def _streameval(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version, and which score index runs.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Exact evaluation of classifiers from the stream of their predictions."""


def run(arguments: list[str]) -> int:
    """Run a command line; errors become one line and an exit code."""
    try:
        code = app(arguments, prog_name="streameval", standalone_mode=False) or 0
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        return code
    except _UsageError as error:
        message = error.format_message()
        command = error.ctx.command_path if error.ctx else "streameval"
        if message:  # none where a bare "streameval" has printed its help
            say(f"{message.rstrip('.')}; {command} --help tells more")
        return BAD_INPUT
    except (
        MissingExtraError,
        SourceError,
        StoreError,
        TargetError,
        OSError,
        MemoryError,
    ) as error:
        say(str(error) or "out of memory")
        return FAILURE
    except StreamevalError as error:
        say(str(error))
        return BAD_INPUT
