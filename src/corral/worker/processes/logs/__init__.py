"""What engines print: `tail` copies it line by line into a `book` per process; the `shelf` holds all of them."""
