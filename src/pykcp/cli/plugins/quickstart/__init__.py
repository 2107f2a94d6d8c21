"""`kubectl kcp quickstart`: something to look at, made in one go."""
