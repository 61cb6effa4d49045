"""The text of an agent file as values that remember their place.

Belongs here: the values of YAML with line and column, references to variables, wildcards, expressions, and
the joining of several files. Not here: which keys there are (`sections`). Read first: `values.py`.
"""
