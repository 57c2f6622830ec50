"""What is left of a drill: one page for people, and the same as JSON for programs."""
