"""From a request to a user: one file per way to prove who one is, and their union."""
