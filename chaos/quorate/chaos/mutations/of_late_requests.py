"""Mutations of what keeps a late copy of an operator's request from being carried out."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from quorate.chaos.mutations import late_request_stories as stories
from quorate.chaos.mutations.cluster_stories import cluster_story
from quorate.chaos.mutations.hunts import StoryHunt
from quorate.chaos.mutations.mutation import Mutation, mutation, mutations_in
from quorate.chaos.sim.patch import Patch
from quorate.client import failover
from quorate.controller import administration, alter_configs, lookup, recover, topics
from quorate.metadata import delta
from quorate.metadata.image import MetadataImage, TopicImage
from quorate.metadata.topic_lookup import find_topic
from quorate.v1 import admin_pb2

__all__ = ["MUTATIONS"]

_IN_THE_CONTROLLER: Final = "a controller, a story"


# -- recovery


@mutation(33, 1, 27, hunt=cluster_story(stories.a_late_recovery_is_refused))
def recovery_is_of_any_incident(patch: Patch) -> None:
    """Whatever leader epoch it names."""
    for module in (recover, administration):
        patch.setattr(module, "find_incident", lambda image, request: _as_it_is(image, request.partition))


@mutation(33, 1, 27, hunt=cluster_story(stories.a_recovery_without_an_answer_is_not_made_again))
def recovery_that_is_asked_again_is_another_one(patch: Patch) -> None:
    recovery_is_of_any_incident.apply(patch)


def _as_it_is(image: MetadataImage, named: admin_pb2.PartitionName) -> Any:
    return lookup.find_partition(image, named)


@mutation(43, 33, hunt=StoryHunt(_IN_THE_CONTROLLER, stories.a_late_recovery_stays_with_its_topic))
def recovery_goes_by_the_name(patch: Patch) -> None:
    """Whatever topic id it names."""
    patch.setattr(lookup, "find_topic", lambda image, name, _topic_id: find_topic(image, name))


@mutation(33, hunt=cluster_story(stories.a_recovery_without_an_answer_is_not_made_again))
def client_takes_a_refusal_for_the_word_on_all_attempts(patch: Patch) -> None:
    """Also where the reason for it is what an earlier one has done."""
    patch.setattr(failover, "_decided", lambda _method, error, *, may_be_done: error)


# -- settings


@mutation(29, 27, hunt=cluster_story(stories.a_late_change_of_settings_is_refused))
def change_of_settings_is_of_any_epoch(patch: Patch) -> None:
    patch.setattr(alter_configs, "_check_is_current", lambda *_: None)


@mutation(29, 27, hunt=StoryHunt(_IN_THE_CONTROLLER, stories.settings_that_were_made_sure_of_hold))
def settings_in_force_are_not_written_again(patch: Patch) -> None:
    """So those who wait with another wish do not hear of it."""
    original = alter_configs._is_current

    def is_current(image: MetadataImage, topic: TopicImage | None, request: Any) -> bool:
        current = image.cluster_configs if topic is None else topic.configs
        is_different = any(current.get(each.name) != each.value for each in request.changes)
        return is_different and original(image, topic, request)

    patch.setattr(alter_configs, "_is_current", is_current)


@mutation(43, 29, hunt=StoryHunt(_IN_THE_CONTROLLER, stories.a_late_change_of_settings_stays_with_its_topic))
def change_of_settings_goes_by_the_name(patch: Patch) -> None:
    """Whatever topic id it names."""
    patch.setattr(alter_configs, "find_topic", lambda image, name, _topic_id: find_topic(image, name))


# -- topics


@mutation(
    2, 43, hunt=cluster_story(stories.a_late_creation_makes_no_topic, settings={"file_delete_delay_ms": 0})
)
def ids_of_deleted_topics_are_not_kept(patch: Patch) -> None:
    """Once no disk holds anything of them."""
    original = delta.ImageDraft.finish

    def finish(self: delta.ImageDraft, offset: int) -> MetadataImage:
        self._newly_forgotten.clear()
        return dataclasses.replace(original(self, offset), forgotten_topics=())

    patch.setattr(delta.ImageDraft, "finish", finish)


@mutation(43, 42, hunt=StoryHunt(_IN_THE_CONTROLLER, stories.a_late_deletion_by_name_is_refused))
def deletion_goes_by_the_name(patch: Patch) -> None:
    """Where it has no id."""
    patch.setattr(topics, "_id_of_deletion", lambda request: request.topic_id)


MUTATIONS: Final[tuple[Mutation, ...]] = mutations_in(globals())
