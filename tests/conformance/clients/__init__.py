"""What every client of the API promises, held against each of them."""
