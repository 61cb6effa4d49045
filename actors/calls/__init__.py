"""The life of a tool call: from a model's reply, past the gate and to its end.

`lifecycle` decides, `record` reads what it decides from, `settler` carries its steps out.
"""
