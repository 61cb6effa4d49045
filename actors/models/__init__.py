"""Models of every kind behind one protocol: one actor for each model in use.

Belongs here: messages in no provider's dialect, the model actor, and the models without a provider
(`script:`, `offline:rules`). Not here: when a model is asked (`actors/nodes`). Read first: `messages.py`,
then `model.py`. A new provider begins in `config/models.py` and `open_model.py`.
"""
