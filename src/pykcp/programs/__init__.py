"""The programs: each with its settings, wiring and process."""
