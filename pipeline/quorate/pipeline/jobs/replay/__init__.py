"""From an archive back into a topic."""
