"""Drivers run compiled workloads: as Kubernetes objects, as processes, as systemd units."""
