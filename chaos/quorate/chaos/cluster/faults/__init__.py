"""What goes wrong in a simulated cluster: one module for each family of faults."""
