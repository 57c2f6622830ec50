"""Simulator, fault injection, workloads, checkers and drills."""
