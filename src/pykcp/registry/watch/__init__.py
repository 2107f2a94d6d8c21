"""Watches: the hub that distributes committed events, and the watch verb."""
