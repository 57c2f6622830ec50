"""What recorded runs leave in docs/evidence: of which sources they are evidence, and how they are kept."""
