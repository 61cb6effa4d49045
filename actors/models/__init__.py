"""Models of every provider, asked in one way."""
