"""Consumer groups: who reads which partition, and how far each group has come (docs/adr/0016)."""
