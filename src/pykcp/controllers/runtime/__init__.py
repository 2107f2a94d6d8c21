"""What all controllers have in common: a feed, a queue, a loop."""
