"""The cache server as a program of its own: settings and process."""
