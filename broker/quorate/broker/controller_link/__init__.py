"""The broker's ties to the active controller: registration, session, lease, and calls."""
