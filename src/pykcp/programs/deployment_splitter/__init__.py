"""The program `deployment-splitter`."""
