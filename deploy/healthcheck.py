"""Exits with 0 if the node in this container is ready: what it answers to ``/readyz`` itself.

A broker is ready when it serves and is in sync wherever it has a replica; a controller when it knows of an
active one. About this node alone: `quorate cluster health` asks the cluster, and one dead node would make all
others unhealthy that way. Nothing but the standard library is imported: this runs every few seconds, beside a
node at work.
"""

from __future__ import annotations

import http.client
import os
import sys

_TIMEOUT_S = 3.0


def main() -> int:
    address = os.environ.get("QUORATE_METRICS_ADDRESS", "0.0.0.0:9644")
    connection = http.client.HTTPConnection("127.0.0.1", int(address.rpartition(":")[2]), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        sys.stdout.write(answer.read().decode(errors="replace"))
    except (OSError, http.client.HTTPException) as error:
        sys.stdout.write(f"{error or type(error).__name__}\n")
        return 1
    finally:
        connection.close()
    return 0 if answer.status == http.client.OK else 1


if __name__ == "__main__":
    sys.exit(main())
