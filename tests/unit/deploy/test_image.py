"""The image: what its build file promises, and the health check that it carries."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.unit.deploy.deploy_files import DEPLOY, ROOT

DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def final_stage() -> str:
    return DOCKERFILE.rpartition("\nFROM ")[2]


def test_final_stage_has_no_compiler() -> None:
    assert "gcc" in DOCKERFILE
    assert not re.search(r"\b(gcc|g\+\+|build-essential|python3-dev|pip install)\b", final_stage())


def test_containers_run_as_a_numbered_user() -> None:
    assert re.findall(r"^USER (.+)$", final_stage(), re.MULTILINE) == ["10001:10001"]


def test_a_stop_is_heard_from_the_first_instant_on() -> None:
    assert 'ENTRYPOINT ["tini", "--", "quorate"]' in final_stage()


def test_image_says_what_it_is() -> None:
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in final_stage()


def test_every_build_that_is_documented_names_the_revision() -> None:
    """Else the image's label would say `unknown`."""
    pages = [DEPLOY / "Dockerfile", ROOT / "README.md", *DEPLOY.rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
    lines = [
        line.strip()
        for page in pages
        if "evidence" not in page.parts
        for line in page.read_text().replace("\\\n", " ").splitlines()
    ]
    builds = [line for line in lines if re.match(r"(?:#\s+|\w+=\S.* )?docker build ", line)]
    composed = [line for line in lines if re.match(r"(?:\w+=\S.* )?docker compose .* build$", line)]
    assert len(builds) >= 2
    assert len(composed) >= 2
    assert all("--build-arg REVISION=" in line for line in builds)
    assert all(line.startswith("IMAGE_REVISION=") for line in composed)


def test_image_has_a_health_check() -> None:
    assert "HEALTHCHECK " in final_stage()


def test_build_takes_every_source_root_along() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    roots = {f"!{path.parent.name}/quorate" for path in ROOT.glob("*/quorate")}
    assert roots <= set(ignored)
    assert "!deploy/healthcheck.py" in ignored


@contextmanager
def node_that_answers(status: int, reason: bytes) -> Iterator[int]:
    """Returns its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(reason)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def check_health(port: int) -> tuple[int, str]:
    answer = subprocess.run(
        [sys.executable, str(DEPLOY / "healthcheck.py")],
        env={"QUORATE_METRICS_ADDRESS": f"0.0.0.0:{port}"},
        capture_output=True,
        text=True,
    )
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_container_is_healthy_when_its_node_is_ready(status: int, code: int) -> None:
    with node_that_answers(status, b"why\n") as port:
        assert check_health(port) == (code, "why\n")


def test_container_whose_node_does_not_answer_is_not_healthy() -> None:
    with node_that_answers(200, b"") as port:
        pass
    code, told = check_health(port)
    assert code == 1
    assert "refused" in told
    assert "Traceback" not in told
