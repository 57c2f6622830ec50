"""One real follower on a simulated disk, and a leader that says what the story wants it to say."""
