"""Consumer groups: what rebalances cost members, commits brokers, and the end of a coordinator its groups."""
