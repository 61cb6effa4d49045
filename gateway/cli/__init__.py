"""The `stopgo` command: one `*_command.py` for each sub-command, and what several of them use.

Belongs here: arguments, output for people, exit codes; heavy imports wait until the command runs. Not here:
anything that a program could use, too. Read first: `main.py`.
"""
