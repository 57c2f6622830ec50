"""gRPC on the wire, written by hand: the fast implementation of the Transport seam.

From the bytes upwards, each layer knowing only those before it:

- ``wire``: the bytes around every message
- ``frames``, ``faults``, ``limits``: what HTTP/2 sends, how it fails, and how much of it is too much
- ``options``: what can be set
- ``header_codec``, ``header_rules``: HPACK with a memory, and which headers may follow which
- ``settings``, ``stream``, ``connection``, ``receiver`` with ``incoming_data``, ``incoming_headers`` and
  ``ending_streams``: HTTP/2 without a socket; bytes and the time go in, bytes and calls of listeners come out
- ``messages``, ``status``, ``grpc_headers``: what gRPC makes of streams
- ``addresses``, ``resolving``, ``connect_errors``: where the other side is, and why there is no way to it
- ``held``, ``untaken``: what waits here for somebody to take it, within bounds
- ``link``, ``encryption``: where a loop's socket is touched, and what may be between the two
- ``server_call``; ``unary_call``, ``streamed_requests``, ``stream_call``, ``exchange_call``: a call as its
  server sees it, and what differs between the kinds
- ``tls_listener``, ``listening``, ``standard_services``, ``strangers``, ``server``: the serving side, from
  its sockets to its services
- ``client_call``, ``client_exchange``, ``client_connection``, ``backoff``, ``channel``: the calling side
- ``blocking_dial``, ``blocking_connection``: the same for threads without a loop
- ``transport``: the seam

docs/adr/0021-lean-transport.md says why it exists and what it costs.

Modules with a ``.pxd`` beside them are compiled where that can be done (``build_codec.py``): it says which of
their names are C's. The Python stays what is read, typed and changed, and what runs without a compiler or
with ``QUORATE_CODEC=pure`` (docs/adr/0035-compiled-transport.md).
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

if os.environ.get("QUORATE_CODEC") == "pure":
    # What was compiled lies beside its source, and would be found first.
    for _folder in __path__:
        sys.path_importer_cache[_folder] = FileFinder(_folder, (SourceFileLoader, SOURCE_SUFFIXES))
