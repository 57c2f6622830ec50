"""Drills of the metadata quorum by itself: real voters, real faults, and a ledger of every change."""
