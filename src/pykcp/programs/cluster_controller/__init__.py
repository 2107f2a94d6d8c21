"""The program `cluster-controller`."""
