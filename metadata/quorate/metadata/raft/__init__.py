"""The metadata quorum: a Raft core without I/O, its journal and snapshots, and the driver between them."""
