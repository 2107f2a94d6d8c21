"""One file per plug-in."""
