"""What people type: programs, flags and their words."""
