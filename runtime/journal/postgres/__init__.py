"""The journal on PostgreSQL, for any number of members. Needs the extra `postgres`."""
