"""Option groups that programs share: one module each."""
