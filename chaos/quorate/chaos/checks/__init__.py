"""What must hold of a history and of what the cluster holds in the end, simulated or not."""
