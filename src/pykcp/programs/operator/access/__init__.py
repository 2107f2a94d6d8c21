"""What the operator does inside of the installations that it runs."""
