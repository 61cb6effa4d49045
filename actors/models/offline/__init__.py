"""The models that need no key and no network: `script:`, which replays a file, and the demo `offline:rules`.

The shipped agent and the guides run on `offline:rules`. Nothing else in the program knows it: it reads a
request like any other model. Read first: `rules_model.py`.
"""
