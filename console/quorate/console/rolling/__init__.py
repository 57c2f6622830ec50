"""Restarting every node of a cluster, one at a time, without anybody noticing."""
