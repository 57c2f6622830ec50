"""Benchmarks: what was measured, by which command, as ratios within one run."""
