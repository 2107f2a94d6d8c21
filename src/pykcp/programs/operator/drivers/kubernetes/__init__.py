"""Runs workloads as Deployments."""
