"""gRPC on the wire, written by hand: the fast implementation of the Transport seam.

From the bytes upwards, each layer knowing only those before it:

- ``frames``, ``faults``, ``limits``: what HTTP/2 sends, how it fails, and how much of it is too much
- ``header_codec``, ``header_rules``: HPACK with a memory, and which headers may follow which
- ``settings``, ``stream``, ``connection``, ``receiver`` with ``incoming_*``: HTTP/2 without a socket; bytes
  and the time go in, bytes and calls of listeners come out
- ``messages``, ``grpc_headers``, ``status``: what gRPC makes of streams
- ``link``: where a loop's socket is touched
- ``server_call``, ``server``, ``listening``, ``standard_services``: the serving side
- ``client_call``, ``channel``: the calling side; ``blocking_connection``: for threads without a loop
- ``transport``: the seam

docs/adr/0021-lean-transport.md says why it exists and what it costs.
"""
