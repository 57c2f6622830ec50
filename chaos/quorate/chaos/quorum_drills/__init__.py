"""Drills: real processes, real faults, load from several clients, and a ledger that is checked at the end."""
