"""Values and operators at evaluation time."""
