"""What kcp asks of writes of its own kinds, one plug-in a file."""
