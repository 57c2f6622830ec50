"""``quorate group``: who reads what, how far behind, and where a group goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from quorate.console.option_types import GROUP_NAME
from quorate.console.session import QuorateGroup, Session, pass_session

if TYPE_CHECKING:
    from quorate.client import AsyncAdmin
    from quorate.client.admin.group_types import GroupDescription
    from quorate.console.group_resets import ResetPlan

__all__ = ["group"]

#: A person waits: no longer than an election takes, and the coordinator's loading.
_TIMEOUT_S: Final = 10.0

_group_name = click.argument("name", metavar="GROUP", type=GROUP_NAME)


@click.group(cls=QuorateGroup)
def group() -> None:
    """List and describe consumer groups, move their offsets, delete them."""


@group.command("list")
@pass_session
def list_groups(session: Session) -> None:
    """Show every group: its state, members, topics, and how many records it has not read yet.

    A lag of "-" is not known: the leader of a partition does not answer, or the group has committed
    nothing and reads nothing. "uncommitted" are partitions in which it has no offset yet.

    \b
    Examples:
      quorate group list
      quorate group list --output json
    """
    from quorate.console.connecting import with_clients
    from quorate.console.group_documents import print_groups
    from quorate.console.group_questions import describe_all, with_admin

    async def collect(admin: AsyncAdmin) -> list[GroupDescription]:
        return await describe_all(admin, timeout_s=_TIMEOUT_S)

    print_groups(with_clients(session.bootstrap, with_admin(session, collect)), session)


@group.command()
@_group_name
@pass_session
def describe(session: Session, name: str) -> None:
    """Show all about GROUP: its members, what each reads, and how far it has come in each partition.

    The lag is in records, in seconds (the age of the oldest record that is not read), and as a share of
    what the topic keeps, by retention.ms or by retention.bytes, whichever is more: at 100% records are
    deleted unread. A member that is idle has nothing to read, because there are more members than
    partitions, or what it subscribes to does not exist, which is told; one that is away has said that
    it will be back, and nobody reads what it has.

    \b
    Examples:
      quorate group describe billing
      quorate group describe billing --output json | jq .lag
    """
    from quorate.console.connecting import with_clients
    from quorate.console.group_documents import print_group
    from quorate.console.group_questions import missing_topics, with_admin

    async def ask(admin: AsyncAdmin) -> tuple[GroupDescription, list[str]]:
        described = await admin.describe_group(name, timeout=_TIMEOUT_S)
        return described, await missing_topics(admin, described)

    found, missing = with_clients(session.bootstrap, with_admin(session, ask))
    print_group(found, session, missing=missing)


@group.command()
@_group_name
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    required=True,
    help="All partitions of a topic, or one; may be repeated.",
)
@click.option(
    "--to",
    "target",
    metavar="earliest|latest|OFFSET|TIME|-1h",
    required=True,
    help=(
        "TIME as 2026-01-31T12:00:00Z, without a zone local time; or so long ago: -90s, -15m, -1h, -7d. "
        "beginning and end, as `consume --from` has them, are understood too."
    ),
)
@click.option("--execute", is_flag=True, help="Do it.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing: the default.")
@pass_session
def reset(
    session: Session, name: str, topics: tuple[str, ...], target: str, *, execute: bool, dry_run: bool
) -> None:
    """Move the committed offsets of GROUP, so that it goes on elsewhere.

    Shows what would change; with --execute it is changed. Only while the group has no members: stop them
    first. An offset that a partition does not hold becomes the nearest one that it does. With a time, the
    group goes on at the first record of that time or later.

    \b
    Examples:
      quorate group reset billing --topic orders --to earliest
      quorate group reset billing --topic orders:3 --to 4711 --execute
      quorate group reset billing --topic orders --topic refunds --to -1h --execute
    """
    if execute and dry_run:
        raise click.UsageError("--execute or --dry-run: not both")
    from quorate.console.connecting import with_clients
    from quorate.console.group_documents import print_resets
    from quorate.console.group_questions import with_admin
    from quorate.console.group_resets import execute_resets, parse_targets, plan_resets
    from quorate.console.offset_choices import parse_offset_choice

    choice = parse_offset_choice(target, words="earliest, latest", hint="--to")
    wanted = parse_targets(topics)

    async def plan_and_do(admin: AsyncAdmin) -> ResetPlan:
        plan = await plan_resets(admin, name, wanted, choice, timeout_s=_TIMEOUT_S)
        if execute:
            await execute_resets(admin, name, plan, timeout_s=_TIMEOUT_S)
        return plan

    plan = with_clients(session.bootstrap, with_admin(session, plan_and_do))
    print_resets(name, plan.resets, session, is_executed=execute)
    for remark in plan.remarks:
        session.note(remark)
    if not execute:
        session.note("nothing was changed; add --execute to do it")
    elif not session.json:
        session.note(f"moved {name} in {len(plan.resets)} partition(s)")


@group.command()
@_group_name
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_session
def delete(session: Session, name: str, *, yes: bool) -> None:
    """Delete GROUP with its offsets. Only while it has no members: stop them first.

    Whoever joins under that name afterwards begins as a new group does.

    \b
    Examples:
      quorate group delete billing
      quorate group delete billing --yes
    """
    from quorate.console.confirming import confirm
    from quorate.console.connecting import with_clients
    from quorate.console.group_questions import check_is_empty, with_admin
    from quorate.console.output import print_json

    found = _described(session, name)
    check_is_empty(found)
    count = sum(each.committed_offset is not None for each in found.progress)
    confirm(
        f"{name} has offsets in {count} partition(s). How far it has come will be forgotten.",
        f"Delete {name}?",
        otherwise=f"{name} is as it was",
        yes=yes,
    )

    async def remove(admin: AsyncAdmin) -> None:
        await admin.delete_group(name, revision=found.revision, timeout=_TIMEOUT_S)

    with_clients(session.bootstrap, with_admin(session, remove))
    if session.json:
        print_json({"group": name})
    else:
        session.note(f"deleted {name}")


def _described(session: Session, name: str) -> GroupDescription:
    from quorate.console.connecting import with_clients
    from quorate.console.group_questions import with_admin

    async def ask(admin: AsyncAdmin) -> GroupDescription:
        return await admin.describe_group(name, timeout=_TIMEOUT_S)

    return with_clients(session.bootstrap, with_admin(session, ask))
