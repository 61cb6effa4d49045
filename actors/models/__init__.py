"""Models of every kind, asked in one way: one actor for each model in use.

Belongs here: messages without a provider's dialect, the model actor, and models without a provider
(`script:`, `offline:rules`). Does not: when a model is asked (`actors/nodes`). Read first: `messages.py`,
then `model.py`.
"""
