"""Real leaders and followers, and the real controller, over logs that are lists."""
