"""Drills: a real cluster under load, a fault by name, and a verdict for each promise."""
