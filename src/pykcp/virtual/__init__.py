"""Virtual workspaces: views of many logical clusters under `/services/`."""
