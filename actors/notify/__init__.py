"""Notifications: tells the channels of the agent file what happens.

Belongs here: which events become rows of the outbox, the deliveries of a row, their order and repetition, the
channels, and the texts. Does not belong here: the outbox itself (`runtime/journal`), and the push
notifications of A2A. Start with `notifier.py`.
"""
