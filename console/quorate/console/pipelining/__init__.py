"""What ``quorate pipeline run`` does and shows."""
