"""A conversation at work, from a command in its inbox to the reply."""
