"""Clients of real clusters, and the proof that every replica's files agree with what they were told."""
