"""The journal in memory: the simplest implementation of the protocol, for tests and trials."""
