"""Refuses the decisions that would send something while the agent is halted.

    ====================  ==================================================================================
    approval              an agreeing decision, while the agent is halted
    ====================  ==================================================================================
    `tool`                is refused, unless the tool only reads
    `elicitation`         is refused, unless its call is of another effect class than `once`
    `outcome_unknown`     is refused: the call is sent again
    `proxy`               is refused: the other agent goes on
    `checkpoint`          is accepted: the calls after it are held
    ====================  ==================================================================================

All other decisions are accepted. A decision that is stored at the moment of the halt has lapsed when it takes
effect (`gate/halt.py`).
"""

from __future__ import annotations

from ..approvals.checkpoint_approval import CheckpointQuestion
from ..approvals.decided import Decided
from ..approvals.elicitation_approval import ElicitationQuestion
from ..approvals.kinds import Approval
from ..approvals.tool_approval import ToolQuestion
from ..common import errors
from ..gate.gate import effect_class
from ..gate.halt import said
from ..log.fold import stored
from ..run.services import Services
from ..tools.registry import Resolve, Resolved


async def refuse_if_halted(approval: Approval, decision: Decided, services: Services) -> None:
    """Raise `AgentError` ``halted`` if the agent is halted and the decision would send something."""
    halt = services.halts.latest
    if not halt.stands or not decision.agrees or approval.state != "pending":
        return
    match approval.asked:
        case CheckpointQuestion():
            return
        case ToolQuestion() as asked:
            found = await services.registry.ask(Resolve(asked.tool_name, asked.tool_args, asked.server))
            if isinstance(found, Resolved) and effect_class(found.tool, approved=True) != "once":
                return
        case ElicitationQuestion() as asked:
            with errors.journal_as_agent_error():
                run = (await stored.read(services.logs.journal, approval.stream)).live_run
            record = None if run is None else run.calls.get(asked.key)
            if record is not None and record.started is not None and record.started.effect != "once":
                return
    raise errors.halted(said(halt))
