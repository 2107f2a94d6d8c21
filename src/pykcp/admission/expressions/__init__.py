"""CEL as admission uses it: what expressions see, how they are compiled and evaluated."""
