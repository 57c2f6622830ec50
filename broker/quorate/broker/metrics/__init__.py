"""What a broker tells of itself in numbers: a file for each subject."""
