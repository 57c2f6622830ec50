"""What a person can do about an error, by its code."""

from __future__ import annotations

from typing import IO, Any, Final

import click

from quorate.errors import QuorateError

__all__ = ["AdvisedError", "WrongSettings", "advice_on", "describe", "error_document"]

_WHAT_TO_DO: Final = "what to do: "

_ADVICE: Final = {
    "BROKER_NOT_AVAILABLE": "`quorate broker list` shows the brokers there are and their state",
    "BROKER_FENCED": "try again in a moment; `quorate broker list` shows who is fenced",
    "BUFFER_EXHAUSTED": "send more slowly, or look why the cluster is slow (`quorate cluster health`)",
    "CANNOT_LISTEN": "stop whoever uses the address, or set listeners to another one",
    "CONTROLLER_MOVED": "look whether it was done, or ask for the same again: that is safe",
    "COORDINATOR_LOAD_IN_PROGRESS": "try again in a moment: the coordinator is reading the group's state",
    "COORDINATOR_NOT_AVAILABLE": (
        "try again in a moment; if it lasts, bring a broker back that holds __consumer_offsets"
    ),
    "CORRUPT_BATCH": "run `quorate log verify` on the node's data directory; keep the files",
    "DELIVERY_EXPIRED": "not written; look at `quorate cluster health`, then send it again",
    "DELIVERY_TIMED_OUT": "it may be in the log: look (`quorate consume`) before you send it again",
    "DELIVERY_UNKNOWN": "it may be in the log: look (`quorate consume`) before you send it again",
    "DISK_FULL": (
        "free some space on the node's disk and try again: less retention (retention.ms, retention.bytes) or "
        "a topic deleted, as long as controllers run; else a larger volume, or other files "
        "(docs/operations/disk-full.md); never a file of the data directory"
    ),
    "DUPLICATE_BROKER_REGISTRATION": (
        "give each broker a node.id of its own, or wait until the other's session has lapsed"
    ),
    "FENCED_MEMBER_EPOCH": "let the consumer join the group again",
    "GROUP_ID_NOT_FOUND": "check the group's name; a group is there once it has a member or an offset",
    "GROUP_MAX_SIZE_REACHED": "stop members that are not needed, or raise group.consumer.max.size",
    "INCONSISTENT_METADATA": (
        "keep the node's files and its log, and report it: this is a bug or damage, and going on spreads it"
    ),
    "INELIGIBLE_REPLICA": "`quorate broker list` shows who is fenced or stopping; bring it back first",
    "INVALID_CONFIG": (
        "correct the setting; docs/configuration.md lists every key of a node, docs/client-options.md those "
        "of clients"
    ),
    "INVALID_RECORD": "correct the line, and begin again with it",
    "INVALID_REGULAR_EXPRESSION": "write it in RE2's syntax: no look-around, no back-references",
    "INVALID_REPLICA_ASSIGNMENT": "name each broker once, and only those that `quorate broker list` shows",
    "INVALID_REQUEST": "correct what the message names; --help shows what the command takes",
    "INVALID_TIMESTAMP": (
        "set the sender's clock, or the topic's message.timestamp.before.max.ms and .after.max.ms"
    ),
    "INVALID_TOPIC": "correct what the message names; `quorate topic describe` shows a topic as it is",
    "INVALID_UPDATE_VERSION": "look at what is there now (`describe` it) and try again",
    "JOB_FAILED": "what was committed stays: correct what the message names, and start the job again",
    "LOG_DAMAGED": "run `quorate log verify` on the node's data directory; keep the files",
    "LOG_TRUNCATED": "records that were read are gone; decide where to go on, then seek there",
    "MESSAGE_TOO_LARGE": "send smaller records, or raise the topic's max.message.bytes",
    "NON_EMPTY_GROUP": "stop the group's members first, or wait until their sessions are over",
    "NOT_CONTROLLER": "try again in a moment; if it lasts, check that a majority of the controllers runs",
    "NOT_COORDINATOR": "try again in a moment: the group has just moved to another broker",
    "NOT_ENOUGH_REPLICAS": (
        "`quorate cluster health` shows which brokers are missing or draining; bring one back (`quorate "
        "broker drain ID --cancel` where it is draining), or ask for fewer copies"
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (
        "it may be in the log; bring a broker back (`quorate cluster health`) before you send it again"
    ),
    "NOT_FOUNDED": "start every controller that controller.voters names: they have to meet once",
    "NO_CONTROLLER": (
        "check that a majority of the controllers runs and can reach each other; their logs name who leads"
    ),
    "NO_OFFSET_FOR_PARTITION": "seek, or commit an offset first (`quorate group reset`)",
    "OFFSET_MISMATCH": "read on to the actual offset that the message names, then decide again",
    "OFFSET_NOT_AVAILABLE": "try again in a moment: the leader is new, or the replica behind",
    "OFFSET_OUT_OF_RANGE": "start --from beginning, end, or an offset that the partition still holds",
    "OVERLOADED": "try again in a moment; if it persists, raise queued.max.requests or spread the load",
    "QUORUM_DAMAGED": (
        "keep the files; remove this voter from the quorum, give it an empty directory, add it again"
    ),
    "REASSIGNMENT_IN_PROGRESS": "wait for it, or call it off (`quorate partition reassign --cancel`)",
    "RECOVERY_REFUSED": "do what the message says; `quorate topic describe` shows replicas, ISR and ELR",
    "REPLICA_DIVERGED": "stop writing to the partition, keep the files of every replica, and report it",
    "REQUEST_TIMED_OUT": "look into the node's log; what was asked for may still have been done",
    "STALE_BROKER_EPOCH": "restart the broker: another run of it has registered since",
    "STALE_MEMBER_EPOCH": "another member reads the partition now; stop this one, or let it join again",
    "STORAGE_FAILED": "look into the node's log for the disk's error, then restart the node",
    "TOPIC_ALREADY_EXISTS": "choose another name, or use the topic that is there",
    "UNAVAILABLE": "check that the node runs and that --bootstrap (or QUORATE_BOOTSTRAP) names its address",
    "UNKNOWN_MEMBER_ID": (
        "the group has given that member up, or has members while somebody without one commits: stop them, "
        "or join the group"
    ),
    "UNKNOWN_SERVER_ERROR": "look into the node's log; what was asked for may have been done",
    "UNKNOWN_TOPIC_OR_PARTITION": "`quorate topic list` and `quorate topic describe` show what there is",
    "COMMIT_OVERTAKEN": "nothing: a later commit of the same consumer stands",
    "HEARTBEAT_OVERTAKEN": "nothing: a later call of the same consumer was heard",
    "UNRELEASED_INSTANCE_ID": "give each consumer an instance id of its own, or stop the one that has it",
    "UNSAFE_REASSIGNMENT": "wait until enough replicas are in sync (`quorate topic describe`), and try again",
    "UNSUPPORTED_BATCH": "use the version of quorate that the node runs",
    "UNSUPPORTED_FEATURE_LEVEL": "run a version of quorate on every node that supports it, then try again",
    "UNSUPPORTED_OPERATION": "do what the message says, or use a version of quorate that does it",
    "VOTER_CHANGE_REFUSED": "do what the message says; `quorate cluster quorum` shows the voters",
}


class AdvisedError(click.ClickException):
    """An error for which a command knows better advice than its code alone gives.

    An empty advice: the message says all there is to say.
    """

    def __init__(self, error: QuorateError, advice: str) -> None:
        super().__init__(error.message)
        self._error = error
        self._advice = advice

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(describe(self._error, self._advice), file, err=True)

    def document(self) -> dict[str, Any]:
        return error_document(self._error, self._advice)


class WrongSettings(AdvisedError):
    """What a command was given is wrong, whatever there is to do it on."""

    exit_code = 2


def describe(error: QuorateError, advice: str | None = None) -> str:
    """``error: CODE: message``, and on the next line what to do."""
    lines = [f"error: {error.code}: {error.message}"]
    if advice is None:
        advice = advice_on(error)
    # A message that quotes a node's log may end with better advice, the node's own.
    if advice and _WHAT_TO_DO not in error.message:
        lines.append(f"  {_WHAT_TO_DO}{advice}")
    return "\n".join(lines)


def error_document(error: QuorateError, advice: str | None = None) -> dict[str, Any]:
    """For programs; no ``what_to_do``: the message says all there is to say."""
    return {
        "code": error.code,
        "message": error.message,
        "retriable": error.retriable,
        "what_to_do": advice_on(error) if advice is None else advice or None,
    }


def advice_on(error: QuorateError) -> str | None:
    fallback = "try again in a moment" if error.retriable else None
    return _ADVICE.get(error.code, fallback)
