"""`kubectl ws`: moving between workspaces, showing and making them."""
