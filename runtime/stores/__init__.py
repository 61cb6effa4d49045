"""The stores of journals together: opening the journal at an address, and copying one to another store.

Read `open_journal.py` first. The stores themselves are packages of `runtime/journal`.
"""
