"""Real clusters under load: what clients were told, and the proof that all replicas' files agree with it."""
