"""One module per verb: from a call to an answer."""
