"""Level-based reconciliation: controllers follow the log, read the store, write by a client."""
