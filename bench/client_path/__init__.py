"""What a record costs the client itself, in processor time: no network, no broker, no other process."""
