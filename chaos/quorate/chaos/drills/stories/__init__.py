"""The stories, by family; ``quorate.chaos.drills.catalogue`` lists them."""
