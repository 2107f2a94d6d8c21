"""Workspaces and the physical clusters behind them, for tests."""
