"""The `stopgo` command: one file for each sub-command, imported when the command is given.

Belongs here: arguments, output for people, exit codes. Does not: what a command does when a program can use
it, too. Read first: `main.py`.
"""
