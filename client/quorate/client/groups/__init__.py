"""What consumers and administration share about groups: the way to a coordinator, and what it is told."""
