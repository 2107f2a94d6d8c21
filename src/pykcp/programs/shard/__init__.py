"""The composition root of one kcp shard: settings, wiring, process."""
