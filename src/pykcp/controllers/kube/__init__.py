"""The controllers that every Kubernetes cluster expects, for all logical clusters at once."""
