"""The wire: protobuf messages and services of package ``quorate.v1``.

The ``.proto`` files beside this one are the source; the ``_pb2`` modules are generated from them
(``make protos``) and never edited.
"""
