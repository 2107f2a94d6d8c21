"""From a checked expression to Python source."""
