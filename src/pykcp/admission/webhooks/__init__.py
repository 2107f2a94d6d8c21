"""Admission webhooks: selection, calls and handling of responses."""
