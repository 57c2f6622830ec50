"""The real producer against brokers that fail by script and by chance."""
