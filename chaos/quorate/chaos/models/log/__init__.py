"""The real log on a simulated disk: lives, deaths, flipped bits, and what must be left."""
