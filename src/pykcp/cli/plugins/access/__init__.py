"""Access to a server: kubeconfig files, credentials, requests."""
