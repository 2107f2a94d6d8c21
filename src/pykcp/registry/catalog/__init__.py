"""Which kinds a logical cluster serves: built-in, custom and bound ones."""
