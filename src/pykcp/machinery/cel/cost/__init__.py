"""What an expression may cost, estimated before and counted during evaluation."""
