"""The agent file: YAML to frozen values, with every mistake named by file, line and key.

| room | what it has |
|---|---|
| `text` | the values of YAML with their places, variables, wildcards |
| `described` | the language in which fields are described |
| `sections` | the keys: one file for each section |
| `reading` | from values to sections, to JSON Schema, and from files of other programs |
| `checks` | what must hold between several keys |

Not here: anything that connects, starts or asks. Read first: `sections/agent_config.py`, then `load.py`, the
only module here that reads files.
"""
