"""Runs installations of kcp: kinds that describe them, their PKI, and drivers that run programs."""
