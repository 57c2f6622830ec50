"""All replicas of a partition: real leaders, followers and controller, over logs that are lists."""
