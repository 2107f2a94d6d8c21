"""What goes wrong, for tests: links that fail, requests that are malformed."""
