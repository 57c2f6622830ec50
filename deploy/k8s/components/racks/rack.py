"""Writes the zone of the machine that this pod runs on as the node's configuration; nothing, if it has none.

    rack.py FILE

In an init container, with the token and the certificate of the API in /run/token. A machine without a zone is
no error: all brokers are in one rack then. An API that does not answer is: a broker that came up without
its rack would be given replicas as if it stood alone.
"""

from __future__ import annotations

import json
import os
import re
import ssl
import sys
import urllib.request
from pathlib import Path

ZONE = "topology.kubernetes.io/zone"
API = "https://kubernetes.default.svc"
TOKEN_DIRECTORY = Path("/run/token")
TIMEOUT_S = 10.0


def main() -> int:
    [path] = sys.argv[1:]
    rack = rack_of(machine(os.environ["MACHINE"]))
    Path(path).write_text(configuration(rack))
    sys.stdout.write(f"rack: {rack or 'none'}\n")
    return 0


def machine(name: str) -> dict[str, object]:
    request = urllib.request.Request(  # noqa: S310  # the scheme is ours
        f"{API}/api/v1/nodes/{name}",
        headers={"Authorization": f"Bearer {(TOKEN_DIRECTORY / 'token').read_text().strip()}"},
    )
    context = ssl.create_default_context(cafile=str(TOKEN_DIRECTORY / "ca.crt"))
    with urllib.request.urlopen(request, timeout=TIMEOUT_S, context=context) as answer:  # noqa: S310  # as above
        found: dict[str, object] = json.load(answer)
    return found


def rack_of(found: dict[str, object]) -> str:
    """In the characters that node.rack takes."""
    metadata = found.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    zone = labels.get(ZONE, "") if isinstance(labels, dict) else ""
    return re.sub(r"[^A-Za-z0-9._-]", "-", str(zone))[:64]


def configuration(rack: str) -> str:
    """In TOML, which the node reads by itself: no shell has to put the rack into its command."""
    return f'node.rack = "{rack}"\n' if rack else ""


if __name__ == "__main__":
    sys.exit(main())
