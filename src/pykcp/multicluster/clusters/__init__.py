"""Clusters of workspaces: registration, health, and who synchronizes them."""
