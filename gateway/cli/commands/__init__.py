"""The sub-commands: one `*_command.py` for each.

All of them are loaded for every command line, so heavy imports wait until a command runs, most of them in a
`*_process.py`. Not here: a conversation (`chat`), the client of a running agent (`client`).
"""
