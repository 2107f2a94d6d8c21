"""An installation on this host: manifests in a directory, programs as processes (`kcp up`)."""
