"""``quorate cluster rebalance``: a better placement of replicas and leaders, and the way there."""
