"""Decisions of the active controller: pure functions from (image, request, now) to records."""
