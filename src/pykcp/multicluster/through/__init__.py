"""Through the tree: pods of placed workloads, asked for in the workspace, answered by their cluster."""
