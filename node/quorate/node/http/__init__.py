"""HTTP/1.1, as much of it as probes and collectors of metrics need."""
