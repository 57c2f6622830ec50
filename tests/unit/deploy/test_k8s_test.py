"""`make k8s-test` where there is no Kubernetes: what it refuses, and what it makes of what it is given."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from deploy.k8s.test import __main__ as program
from deploy.k8s.test import errands, installing, steps
from deploy.k8s.test.cutting import Scissors
from deploy.k8s.test.images import Images
from deploy.k8s.test.in_pod import IsrSeen
from deploy.k8s.test.kubernetes import SETS, Kubernetes
from deploy.test.commands import CannotTest
from quorate.core.config import NodeConfig
from tests.unit.deploy.deploy_files import ROOT
from tests.unit.deploy.fake_kubernetes import FakeKubernetes, pod
from tests.unit.deploy.manifests import of_kind, stateful_sets

IMAGES = ["--image", "q:1", "--next-image", "q:2"]


def test_without_a_cluster_it_fails_and_says_so(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "deploy.k8s.test", *IMAGES, "--skip", "cut", "outside", "--kubectl", "false"],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1
    assert "k8s-test failed: no Kubernetes answers" in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--skip", "cut"], "say where the image comes from"),
        (["--image", "q:1", "--skip", "cut"], "go together"),
        (IMAGES, "give --cut and --heal, or --skip cut"),
        ([*IMAGES, "--skip", "cut"], "give --outside, or --skip outside"),
        ([*IMAGES, "--only", "scale", "outside", "--outside", "sh"], "run shrink as well"),
        ([*IMAGES, "--only", "dance"], "invalid choice"),
        ([*IMAGES, "--only", "shrink"], "shrink takes away the broker that scale adds"),
    ],
)
def test_what_it_has_to_know_is_asked_for(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.parse(arguments)
    assert told in capsys.readouterr().err


def test_steps_run_in_their_order_and_only_those_that_are_wanted() -> None:
    options = program.parse([*IMAGES, "--only", "all", "kill", "cut", "--skip", "cut"])
    assert [step.name for step in options.steps] == ["kill", "all"]


def test_it_is_about_the_sets_of_the_overlay() -> None:
    sets = {each.name: each for each in stateful_sets("one-machine")}
    assert set(sets) == set(SETS)
    assert claims_of("one-machine") < set(installing.ONE_MACHINE.claims), (
        "and one for the broker that is added"
    )
    for each in sets.values():
        assert "affinity" not in each.pod, "one machine has room for all"


def claims_of(overlay: str) -> set[str]:
    return {f"data-{each.name}-{ordinal}" for each in stateful_sets(overlay) for ordinal in each.ordinals}


@pytest.mark.parametrize("overlay", [installing.ONE_MACHINE, installing.DEV], ids=lambda each: each.name)
def test_what_it_makes_and_deletes_is_what_the_overlay_has(overlay: installing.Overlay) -> None:
    assert set(of_kind(overlay.name, "Namespace")) == {overlay.namespace}
    assert claims_of(overlay.name) <= set(overlay.claims)
    for each in stateful_sets(overlay.name):
        [claim] = each.spec["volumeClaimTemplates"]
        assert claim["spec"]["resources"]["requests"]["storage"] in ("1Gi", installing._CAPACITY), (
            "or none is bound"
        )
    assert set(of_kind(overlay.name, "ClusterRole")) == set(overlay.cluster_roles)
    assert set(of_kind(overlay.name, "ClusterRoleBinding")) == set(overlay.cluster_roles)


THEIRS = [
    ("namespace", "quorate"),
    ("namespace", "quorate-dev"),
    ("clusterrole", "quorate-rack"),
    ("clusterrolebinding", "quorate-rack"),
]


@pytest.mark.parametrize("theirs", THEIRS, ids=" ".join)
async def test_nothing_is_begun_where_a_name_is_taken(theirs: tuple[str, str]) -> None:
    kubernetes = FakeKubernetes(theirs)
    with pytest.raises(CannotTest, match="there is a {} {} already".format(*theirs)):
        await installing.check_room(kubernetes, None)
    await installing.check_room(FakeKubernetes(("clusterrole", "view"), ("namespace", "default")), None)


@pytest.mark.parametrize("theirs", [thing for thing in THEIRS if "quorate-dev" not in thing], ids=" ".join)
async def test_only_what_was_made_is_deleted(theirs: tuple[str, str]) -> None:
    """Somebody may make a thing of that name after it was looked for."""
    kubernetes = FakeKubernetes(theirs, ("namespace", "default"))
    with pytest.raises(CannotTest, match="AlreadyExists"):
        await installing.install(kubernetes, installing.ONE_MACHINE, "q:1", None)
    assert ("namespace", "quorate") in kubernetes.things
    await installing.uninstall(kubernetes, installing.ONE_MACHINE, None)
    assert kubernetes.things == {theirs, ("namespace", "default")}
    assert kubernetes.emptied == (set() if theirs[0] == "namespace" else {"quorate"})


async def test_nothing_is_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.chown", lambda *_: None)
    kubernetes, volumes = FakeKubernetes(), installing.Volumes(str(tmp_path))
    await installing.install(kubernetes, installing.ONE_MACHINE, "q:1", volumes)
    await installing.install(kubernetes, installing.DEV, "q:1", volumes)
    await installing.uninstall(kubernetes, installing.DEV, volumes)
    assert ("namespace", "quorate") in kubernetes.things
    assert os.listdir(tmp_path) == ["one-machine"], "volumes of the two do not meet"
    await installing.uninstall(kubernetes, installing.ONE_MACHINE, volumes)
    assert (kubernetes.things, os.listdir(tmp_path)) == (set(), [])


def test_directory_that_was_there_is_not_taken_for_volumes_and_not_removed(tmp_path: Path) -> None:
    precious = tmp_path / "dev" / "data-quorate-1" / "log"
    precious.parent.mkdir(parents=True)
    precious.write_text("somebody's")
    volumes = installing.Volumes(str(tmp_path))
    with pytest.raises(CannotTest, match="takes a directory of this machine that is empty"):
        volumes.make(installing.DEV)
    volumes.remove(installing.DEV)
    assert precious.exists()


def test_every_container_gets_the_image_that_is_tested() -> None:
    for each in stateful_sets("one-machine"):
        adapted = installing.adapted(each.document, "mine:1", has_host_volumes=True)
        pod_spec: dict[str, Any] = adapted["spec"]["template"]["spec"]
        containers = [*pod_spec["containers"], *pod_spec.get("initContainers", [])]
        assert {container["image"] for container in containers} == {"mine:1"}
        [claim] = adapted["spec"]["volumeClaimTemplates"]
        assert claim["spec"]["storageClassName"] == installing._CLASS


def test_clients_are_let_in_and_may_do_no_more_than_the_namespace_allows() -> None:
    document = errands._pod_document("q:1")
    policy = of_kind("one-machine", "NetworkPolicy")["quorate-clients"]["spec"]
    [rule] = policy["ingress"]
    [source] = rule["from"]
    assert source["podSelector"]["matchLabels"].items() <= document["metadata"]["labels"].items()
    assert "app.kubernetes.io/name" not in document["metadata"]["labels"], "it is no node"
    [container] = document["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert document["spec"]["securityContext"]["runAsNonRoot"] is True


def test_program_in_the_pod_imports_only_what_the_image_has() -> None:
    tree = ast.parse(errands._SCRIPT.read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert all(str(name).partition(".")[0] != "deploy" for name in imported)


async def test_pods_are_cut_apart_both_ways_and_healed_whatever_happens(tmp_path: Path) -> None:
    told = tmp_path / "told"
    scissors = Scissors(f"echo cut {{a}} {{b}} >> {told}", f"echo heal {{a}} {{b}} >> {told}")
    with pytest.raises(ZeroDivisionError):
        async with scissors.apart(pod("one", "1", ip="1.1.1.1"), pod("two", "2", ip="2.2.2.2")):
            raise ZeroDivisionError
    assert told.read_text().splitlines() == [
        f"{verb} {way}" for verb in ("cut", "heal") for way in ("1.1.1.1 2.2.2.2", "2.2.2.2 1.1.1.1")
    ]
    with pytest.raises(CannotTest, match="name both pods"):
        Scissors("iptables {a}", "iptables {a} {b}")


def test_leader_waits_for_a_follower_that_is_cut_off_as_long_as_its_setting_says() -> None:
    [cut] = [each for each in steps.STEPS if each.name == "cut"]
    defaults: dict[str, Any] = {each.name: each.default for each in fields(NodeConfig)}
    assert cut.patience_s == defaults["replica_lag_time_max_ms"] / 1_000


def test_pod_that_is_on_its_way_out_is_not_ready() -> None:
    assert pod("quorate-broker-1", "1").is_ready
    assert not pod("quorate-broker-1", "1", going=True).is_ready
    assert not pod("quorate-broker-1", "1", ready=False).is_ready


@pytest.mark.parametrize(
    ("step", "told", "trouble"),
    [
        ("kill", {"longest_wait_s": 4.0, "isr_min": 1, "isr_unseen_s": 1.0}, None),
        (
            "kill",
            {"longest_wait_s": 11.0, "isr_min": 2, "isr_unseen_s": 1.0},
            "acknowledged nothing for 11.0 s",
        ),
        ("cut", {"longest_wait_s": 19.0, "isr_min": 2, "isr_unseen_s": 1.0}, None),
        (
            "cut",
            {"longest_wait_s": 21.0, "isr_min": 2, "isr_unseen_s": 1.0},
            "acknowledged nothing for 21.0 s; 20 s are allowed",
        ),
        ("roll", {"longest_wait_s": 1.0, "isr_min": 1, "isr_unseen_s": 1.0}, "did not wait for sync"),
        (
            "roll",
            {"longest_wait_s": 1.0, "isr_min": None, "isr_unseen_s": 9.0},
            "nobody saw the ISR for 9.0 s",
        ),
        (
            "roll",
            {"longest_wait_s": 1.0, "isr_min": 2, "isr_unseen_s": 11.0},
            "nobody saw the ISR for 11.0 s",
        ),
        ("upgrade", {"longest_wait_s": 1.0, "isr_min": 2, "isr_unseen_s": 1.0}, None),
        ("all", {"longest_wait_s": 60.0, "isr_min": 1, "isr_unseen_s": 60.0}, None),
    ],
)
def test_verdict_is_about_what_clients_saw(step: str, told: dict[str, Any], trouble: str | None) -> None:
    [found] = [each for each in steps.STEPS if each.name == step]
    nobody: Any = None
    scene = steps.Scene(Kubernetes("kubectl"), nobody, None, Images("q:1", "q:2"), None, failover_s=10.0)
    if trouble is None:
        steps.judge(found, scene, told)
    else:
        with pytest.raises(CannotTest, match=trouble):
            steps.judge(found, scene, told)


def test_smallest_isr_counts_and_time_without_a_look() -> None:
    seen = IsrSeen(100.0)
    assert seen.told(103.0) == {"isr_min": None, "isr_unseen_s": 3.0}
    for smallest, now_s in ((3, 101.0), (2, 108.0), (3, 109.0)):
        seen.saw(smallest, now_s)
    assert seen.told(110.0) == {"isr_min": 2, "isr_unseen_s": 7.0}
    assert seen.told(120.0) == {"isr_min": 2, "isr_unseen_s": 11.0}


class FakeErrands:
    """Clients to whom nothing happens."""

    async def do(self, name: str, **_: Any) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {
            "end": {"longest_wait_s": 0.5, "isr_min": 3, "isr_unseen_s": 0.3},
            "prove": {"acknowledged": 1_200},
        }
        return answers.get(name, {})


async def test_step_that_fails_is_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def settled(_: steps.Scene) -> None: ...

    async def pass_by(scene: steps.Scene) -> None:
        scene.remarks.append("a remark")

    async def fail(_: steps.Scene) -> None:
        raise CannotTest("it does not")

    monkeypatch.setattr(steps.Scene, "settled", settled)
    errands_of_nobody: Any = FakeErrands()
    scene = steps.Scene(
        Kubernetes("false"), errands_of_nobody, None, Images("q:1", "q:2"), None, failover_s=10.0
    )
    wanted = [steps.Step("roll", "it passes", pass_by), steps.Step("kill", "it fails", fail)]
    done = await program._walk(scene, [*wanted, wanted[0]])
    assert [(each.step, each.trouble) for each in done] == [("roll", None), ("kill", "it does not")]
    assert done[0].told == (
        "1,200 acknowledged records in all, each at its offset; longest wait of a writer 0.5 s; "
        "smallest ISR 3; a remark"
    )
