"""Models of every kind behind one protocol, with one actor for each model in use.

Belongs here: requests and replies independent of a provider, the model actor, the codecs of providers
(`providers/`), the models `script:` and `offline:rules`. Not here: when to call a model (`actors/nodes`).
Read first: `messages.py`, then `model.py`. A new provider starts in `config/models.py` and `open_model.py`.
"""
