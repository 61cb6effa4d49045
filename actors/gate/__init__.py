"""What a tool call has to pass before it leaves."""
