"""What authentication reads of objects, on this shard and on others."""
