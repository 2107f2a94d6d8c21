"""A command line as kubectl's users know it: commands, flags, help, completion."""
