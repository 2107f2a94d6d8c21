"""The driver `systemd`: workloads as units, which outlive every supervisor."""
