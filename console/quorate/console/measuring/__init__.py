"""What ``quorate bench`` measures: a cluster as its clients see it."""
