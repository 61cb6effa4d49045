"""What must hold between several keys of an agent file: errors and warnings.

Read first: `checks.py`. `config/load.py` calls all of them.
"""
