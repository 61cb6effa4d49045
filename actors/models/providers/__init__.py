"""The wire formats of the providers."""
