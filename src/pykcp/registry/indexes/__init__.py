"""Index entries: how objects are found by something other than their key."""
