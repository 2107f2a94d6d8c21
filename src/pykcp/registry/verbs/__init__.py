"""The verbs: create, read, update, delete and transactions."""
