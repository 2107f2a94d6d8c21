"""Commands of `kcp` that run an installation on this host: `kcp up`, `kcp status`, …"""
