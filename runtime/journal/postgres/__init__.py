"""The journal on PostgreSQL, for any number of nodes. Needs the extra `postgres`."""
