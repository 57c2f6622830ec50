"""The Transport seam's implementations, and errors on the wire."""

from __future__ import annotations

import os

# gRPC's C core writes lines of its own to standard error, between a server's JSON objects. It reads
# this once, when it is first imported; whoever wants those lines sets it to something else.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
