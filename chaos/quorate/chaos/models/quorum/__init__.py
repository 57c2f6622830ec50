"""Quorums, and one voter's directory, on simulated disks: lives, deaths, damage, and what must be left."""
