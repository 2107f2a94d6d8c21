"""Types of clusters: read from them, negotiated with one another, and served by the workspace."""
