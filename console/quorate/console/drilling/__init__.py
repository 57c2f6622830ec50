"""What ``quorate drill`` does and shows."""
