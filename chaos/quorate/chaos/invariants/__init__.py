"""What must hold of a simulated cluster after every step of it (rule 1 and its kin)."""
