"""``python -m quorate.node.demo``: produce, kill -9 in the middle, recover, prove that nothing was lost."""
