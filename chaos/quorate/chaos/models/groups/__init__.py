"""Consumer groups: the coordinator's decisions, and members that say things late, twice, or not at all."""
