"""From values to sections, from sections to JSON Schema, and from the files of other programs to sections.

Not here: what must hold between several keys (`checks`). Read first: `reader.py`.
"""
