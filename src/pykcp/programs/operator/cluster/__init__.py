"""`kcp operator`: runs installations in a Kubernetes cluster."""
