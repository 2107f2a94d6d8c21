"""The driver `process`: workloads as child processes of a supervisor on this host."""
