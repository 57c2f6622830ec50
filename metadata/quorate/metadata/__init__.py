"""Metadata records, the immutable image, and the Raft quorum that keeps them."""
