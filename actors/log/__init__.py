"""The log of a conversation.

| room | what it has |
|---|---|
| `words` | events, commands, outcomes, keys, and their stored forms |
| `fold` | the state of a conversation as a pure function of its events |
| `writer` | the only writer of a stream, which also puts questions to people and waits for the decisions |

Not here: how bytes reach the disk (`runtime/journal`), the next step of a run (`actors/nodes`). Read first:
`words/events.py`, then `fold/state.py` and `writer/log.py`.
"""
