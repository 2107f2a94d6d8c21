"""Admission webhooks: who is called, how, and what their answers do."""
