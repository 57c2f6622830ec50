"""What the command line is called with, and what it exits with.

Exit status: 0 done, 1 refused or failed, 2 wrong usage, 130 interrupted. An error is told in two
lines on stderr, its code with what happened and what to do about it (with --output json: one line, a
document), and never as a traceback. A mistake of ours is told in the same form, as INTERNAL; its traceback
is for whoever asks for it with QUORATE_TRACEBACK.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click

from quorate.console.commands.bench import bench
from quorate.console.commands.broker import broker
from quorate.console.commands.cluster import cluster
from quorate.console.commands.consume import consume
from quorate.console.commands.down import down
from quorate.console.commands.drill import drill
from quorate.console.commands.group import group
from quorate.console.commands.log import log
from quorate.console.commands.node import node
from quorate.console.commands.partition import partition
from quorate.console.commands.pipeline import pipeline
from quorate.console.commands.plan import plan
from quorate.console.commands.produce import produce
from quorate.console.commands.restart import restart
from quorate.console.commands.sim import sim
from quorate.console.commands.status import status
from quorate.console.commands.stop import stop
from quorate.console.commands.topic import topic
from quorate.console.commands.up import up
from quorate.console.output import (
    TRACEBACK_VARIABLE,
    CannotWriteOutput,
    CodedError,
    InternalError,
    ensure_standard_streams,
    forget_standard_output,
    print_error_document,
)
from quorate.console.session import QuorateGroup, Session
from quorate.errors import QuorateError

__all__ = ["cli", "run"]


def _print_version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:  # noqa: FBT001  # click calls it
    if not value:
        return
    from quorate.console.version import version_line

    click.echo(version_line())
    context.exit()


class _ReaderHasGone(Exception):
    """A broken pipe, under a name that click does not know: it would end the process with status 1."""


class _Program(QuorateGroup):
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)  # prints --help and --version
        except BrokenPipeError as error:
            raise _ReaderHasGone from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderHasGone from error


@click.group(
    cls=_Program,
    environment=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Version, Python, and whether the record codec is compiled.",
)
@click.pass_context
def cli(context: click.Context) -> None:
    """A replicated, partitioned log.

    Shell completion: eval "$(_QUORATE_COMPLETE=bash_source quorate)" (or zsh_source, fish_source).
    """
    context.ensure_object(Session)


_COMMANDS = (
    bench,
    broker,
    cluster,
    consume,
    down,
    drill,
    group,
    log,
    node,
    partition,
    pipeline,
    plan,
    produce,
    restart,
    sim,
    status,
    stop,
    topic,
    up,
)
for _command in _COMMANDS:
    cli.add_command(_command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns its exit status."""
    # gRPC's C core would add lines of its own to ours. It looks once, while a command imports it.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    ensure_standard_streams()
    session = Session()
    status = 0
    try:
        status = cli.main(args=arguments, prog_name="quorate", standalone_mode=False, obj=session) or 0
        # Here, where a failure can still be told: the interpreter's own flush is too late for that.
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        _tell(error, session)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        return _status_of_interruption(error)
    except (BrokenPipeError, _ReaderHasGone):
        # Whoever read this has seen enough (`| head`): that is an end like any other. Commands for
        # which it is not say so themselves.
        forget_standard_output()
    except QuorateError as error:
        from quorate.console.advice import AdvisedError, advice_on

        _tell(AdvisedError(error, advice_on(error) or ""), session)
        return 1
    except TimeoutError as error:
        # An OSError by descent, and not about standard output.
        from quorate.console.advice import AdvisedError
        from quorate.errors import RequestTimedOut

        _tell(AdvisedError(RequestTimedOut(str(error) or "it took too long"), ""), session)
        return 1
    except OSError as error:
        if error.filename is not None:
            # About a file, which standard output is not.
            return _tell_mistake(error, session)
        forget_standard_output()
        _tell(CannotWriteOutput(error), session)
        return 1
    except Exception as error:  # noqa: BLE001  # whatever it is, nobody is shown a traceback unasked
        return _tell_mistake(error, session)
    return status


def _status_of_interruption(error: BaseException) -> int:
    """As a shell tells of a process that a signal has ended."""
    from quorate.node.interruption import Terminated

    return 128 + (signal.SIGTERM if isinstance(error.__cause__, Terminated) else signal.SIGINT)


def _tell_mistake(error: Exception, session: Session) -> int:
    """Ours, whatever it is: nobody who uses this can read our tracebacks."""
    if os.environ.get(TRACEBACK_VARIABLE):
        raise error
    _tell(InternalError(error), session)
    return 1


def _tell(error: click.ClickException, session: Session) -> None:
    """Wrong usage is never told as a document: what the output should be may be what is wrong."""
    from quorate.console.advice import AdvisedError

    if session.json and isinstance(error, AdvisedError | CodedError):
        print_error_document(error.document())
    else:
        error.show()
