"""The tasks of an agent beside its conversations.

Belongs here: the timers of approvals, the conversations that are resumed after a start or after another
member's end, the questions of remote agents, the recorder of runs, and the exchange with other members. Not
here: the work of one conversation (`actors/conversation`). Each file is one task, which the supervisor
starts.
"""
