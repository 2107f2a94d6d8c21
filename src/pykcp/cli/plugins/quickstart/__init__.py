"""`kubectl kcp quickstart`: set up an example."""
