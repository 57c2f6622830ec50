"""Producer, Consumer and Admin."""
