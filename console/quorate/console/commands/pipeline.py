"""``quorate pipeline``: jobs on Spark.

The options of a job are the settings of its configuration, so they are made when somebody asks for the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from quorate.console.option_types import TEXT
from quorate.console.session import QuorateCommand, QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.core.config.schema import Setting

__all__ = ["pipeline"]


@click.group(cls=QuorateGroup)
def pipeline() -> None:
    """Topics from and to Spark: archives, tables, aggregates (needs the extra `spark`, and Java 17)."""


class _Jobs(QuorateGroup):
    """One command for each job."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click calls it
        from quorate.pipeline.jobs.config import JOBS

        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # as above
        from quorate.pipeline.jobs.config import JOBS

        return _command(cmd_name) if cmd_name in JOBS else None


@pipeline.group(cls=_Jobs)
def run() -> None:
    """Run a job until it is done, or until Ctrl-C or SIGTERM. Started again, it goes on where it was."""


def _command(name: str) -> click.Command:
    from quorate.core.config.schema import settings_of
    from quorate.pipeline.jobs.config import JOBS

    @click.option(
        "--config",
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help="A file of TOML with any of the settings below, under their names with dots; options win "
        "over it.",
    )
    @pass_session
    def run_job(session: Session, /, config_file: str | None, **flags: Any) -> int:
        from quorate.console.pipelining.runs import run_one

        given = {key.replace("_", "."): value for key, value in flags.items() if value is not None}
        return run_one(session, name, config_file, given)

    config_class = JOBS[name]
    options = [_option(each) for each in settings_of(config_class) if each.key != "bootstrap.servers"]
    made = click.command(name, cls=QuorateCommand, help=config_class.__doc__)(run_job)
    made.params[1:1] = options
    return made


def _option(setting: Setting) -> click.Option:
    from quorate.core.config.kinds import Flag, Optional
    from quorate.core.config.schema import REQUIRED

    flag, attribute = "--" + setting.key.replace(".", "-"), setting.key.replace(".", "_")
    # One that holds unless it is said otherwise needs a word for that.
    if isinstance(setting.kind, Flag) and not setting.default:
        return click.Option([flag, attribute], is_flag=True, default=None, help=setting.about)
    default = "" if setting.default in (REQUIRED, None, ()) else setting.kind.render(setting.default)
    needed = "required" if setting.default is REQUIRED else f"default {default}" if default else ""
    # Whoever wants nothing leaves the option out.
    kind = setting.kind.kind if isinstance(setting.kind, Optional) else setting.kind
    facts = "; ".join(each for each in (kind.accepts, needed) if each)
    return click.Option(
        [flag, attribute], type=TEXT, metavar=kind.name.upper(), help=f"{setting.about}  [{facts}]"
    )
