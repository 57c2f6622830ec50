"""What every part of Quorate shares: ids, config, the three seams, the record batch."""
