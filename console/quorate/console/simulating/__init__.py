"""Behind `quorate sim`: how campaigns of simulated runs are shown."""
