"""The kinds of work that a tree is made of."""
