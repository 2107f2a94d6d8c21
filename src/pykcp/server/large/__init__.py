"""Large writes, computed in worker processes."""
