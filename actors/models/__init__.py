"""Models of every kind behind one protocol, with one actor for each model in use.

| room | what it has |
|---|---|
| `messages` | requests and replies, independent of a provider |
| `codecs` | the wire formats |
| `providers` | addresses, logins and connections |
| `offline` | the models `script:` and `offline:rules` |

Not here: when to call a model (`actors/nodes`). Read first: `messages/messages.py`, then
`providers/model.py`. A new provider starts in `codecs/profiles.py` and `open_model.py`.
"""
