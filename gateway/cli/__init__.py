"""The `stopgo` command: one file for each sub-command.

Belongs here: arguments, output for people, exit codes; heavy imports wait until the command runs. Not here:
anything that a program could use, too. Read first: `main.py`.
"""
