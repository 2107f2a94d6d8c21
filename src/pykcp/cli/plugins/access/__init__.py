"""How a plugin gets to a server: kubeconfig files, credentials, requests."""
