"""A real follower, and a leader that says what the story wants it to say."""
