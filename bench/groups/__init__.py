"""Consumer groups: what rebalances cost members, commits the brokers, and the end of a coordinator a group."""
