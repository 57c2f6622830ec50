"""``python -m quorate.chaos.demo``: a cluster under load, kill -9, and the proof that nothing was lost."""
