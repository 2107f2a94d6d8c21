"""Certificates of an installation: what is wanted, and an engine that issues and renews it."""
