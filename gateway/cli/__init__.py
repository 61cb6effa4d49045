"""The `stopgo` command.

| room | what it has |
|---|---|
| `commands` | one file for each sub-command |
| `chat` | a conversation at a terminal |
| `client` | clients of other processes |
| `terminal` | lines, texts, prompts |
| `process` | arguments, signals |

Belongs here: arguments, output for people, exit codes. Not here: anything that a program could use, too. Read
first: `main.py`.
"""
