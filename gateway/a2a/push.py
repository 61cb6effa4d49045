"""Push notifications: updates of a task, sent to URLs that clients configure.

A configuration is live, paused or over:

| state | follower | meaning |
|---|---|---|
| live | yes, at the member that received it | updates are sent |
| paused | no | its member or its credential has ended; a client has to set it again |
| over | no | the task has ended, and all updates were sent |

The follower of a live configuration folds the conversation's events and sends each update before it reads the
next event. The journal is its queue: a slow receiver needs no buffer and misses nothing.

Configurations are stored as notes, without the token and the credentials, which only the memory of the member
has that received them; hence the pause after a restart. Other members show and delete them.
"""

from __future__ import annotations

import logging
import random
import re
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias, assert_never

import attrs
import trio

from ...actors.a2a.wire import v03_codec, v1_codec
from ...actors.a2a.wire.a2a_errors import A2AError, invalid
from ...actors.a2a.wire.task import (
    INTERRUPTED,
    TERMINAL,
    DeletePush,
    GetPush,
    ListPush,
    PushConfig,
    SetPush,
    StatusUpdate,
    Task,
    Update,
)
from ...actors.agent.agent import Agent
from ...actors.common.bounded_post import NotDelivered, Post, ResolveHost, resolve
from ...actors.common.errors import AgentError
from ...actors.common.post_address import BadAddress, target_of
from ...runtime.journal.errors import JournalError
from ...runtime.journal.followed_notes import FollowedNotes
from ...runtime.journal.protocol import Json
from ...runtime.json_text import dump_wire
from .as_a2a_error import as_a2a_error
from .push_hook import Hook, SetBy, from_note, to_note
from .task_events import entries, known_task, read_tasks
from .task_log import TaskLog
from .task_page import context_of

log = logging.getLogger(__name__)

NOTES = "a2a.push"
"""The kind of the notes. Their keys are numbers that are reused, so there are never more notes than
`MOST_CONFIGS`."""
MOST_CONFIGS = 1000
"""Maximum number of configurations. A new one replaces the oldest that is over, else the oldest paused
one."""
MOST_OF_A_TASK = 16
MOST_OF_A_PEER = 250
"""Maximum number of live configurations from one client address, so that one client cannot exhaust the
limit."""
LONGEST_ID = 128
DEFAULT_ID = "default"
LONGEST_SECRET = 4096
"""Characters of a token, and of credentials."""

ATTEMPTS = 8
"""Maximum number of attempts for one update."""
FIRST_PAUSE = 1.0
"""Seconds after the first attempt. Each pause doubles, and is shortened at random by up to half."""
LONGEST_PAUSE = 60.0
"""Seconds."""
CLOSING = 1.0
"""Seconds to close the connections."""

MEDIA_TYPE = "application/a2a+json"
V03_MEDIA_TYPE = "application/json"

_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")

PushRequest: TypeAlias = SetPush | GetPush | ListPush | DeletePush


@attrs.define(eq=False)
class PushNotifier:
    """Stores configurations and runs their followers. Made by `open_push`. Methods raise `A2AError`."""

    _agent: Agent
    _notes: FollowedNotes
    _nursery: trio.Nursery
    _post: Post
    _hooks: dict[tuple[str, str], Hook] = attrs.field(factory=dict)
    """By task and id, the oldest first."""
    _living: frozenset[str] = frozenset()
    """The members that were running at the last request."""
    _writing: trio.Lock = attrs.field(factory=trio.Lock)

    async def answer(
        self, request: PushRequest, by: SetBy, agent: Agent
    ) -> PushConfig | Sequence[PushConfig] | None:
        """Answer a request about configurations; `agent` acts for its sender. Returned configurations contain
        neither token nor credentials, because any client that knows the task may ask."""
        await self._refresh()
        id = request.config.task if isinstance(request, SetPush) else request.task
        tasks = await read_tasks(agent, context_of(id))
        task = known_task(tasks, id)
        if isinstance(request, SetPush | DeletePush):
            with as_a2a_error():
                await agent.check_right("command", context_of(id))
        match request:
            case SetPush(config=config):
                await self.check(config)
                return await self.set(config, by, after=tasks.last_seq, is_over=task.status.state in TERMINAL)
            case GetPush():
                return self._shown(self._find(request))
            case ListPush():
                return tuple(map(self._shown, self._of(request.task)))
            case DeletePush():
                async with self._writing:
                    if (hook := self._hooks.get((request.task, request.id))) is not None:
                        await self._forget(hook)
                return None
            case _:
                assert_never(request)

    async def check(self, config: PushConfig) -> None:
        """Raises `A2AError` INVALID_PARAMS for an invalid configuration; call it before `set`."""
        try:
            await self._post.check(target_of(config.url))
        except BadAddress as error:
            raise invalid("url", str(error)) from error
        if len(config.id) > LONGEST_ID or not config.id.isprintable():
            raise invalid("id", f"must be printable and at most {LONGEST_ID} characters long")
        if config.scheme is not None and not _SCHEME.fullmatch(config.scheme):
            raise invalid("authentication.scheme", "is not a valid name of a scheme")
        for field, secret in (("token", config.token), ("authentication.credentials", config.credentials)):
            if secret is not None and not (len(secret) <= LONGEST_SECRET and _SECRET.fullmatch(secret)):
                raise invalid(field, f"must be ASCII without controls, at most {LONGEST_SECRET} characters")

    def check_room(self, config: PushConfig, by: SetBy) -> None:
        """Raises `A2AError` UNSUPPORTED_OPERATION if a live configuration would exceed a limit."""
        hook = self._hooks.get((config.task, config.id or DEFAULT_ID))
        if hook is None or hook.scope is None:
            self._check_peer(by.peer)
        if hook is None:
            self._replaceable(config.task)

    async def set(self, config: PushConfig, by: SetBy, *, after: int, is_over: bool) -> PushConfig:
        """Store a configuration that passed `check`, replacing the one with the same id, and send the updates
        after the event `after`, unless the task `is_over`. Returns the configuration with its id."""
        if not config.id:
            # A client of 0.3 that gives no id has one configuration per task, which it may ask for without
            # id.
            config = attrs.evolve(config, id=str(uuid.uuid4()) if by.is_v1 else DEFAULT_ID)
        async with self._writing:
            while not await self._set(config, by, after, is_over=is_over):
                pass  # another member has written configurations in the meantime
        return config

    async def _set(self, config: PushConfig, by: SetBy, after: int, *, is_over: bool) -> bool:
        await self._refresh()
        at = self._notes.revision(NOTES)
        hook = self._hooks.get((config.task, config.id))
        is_live = hook is not None and hook.scope is not None
        if not is_live and not is_over:
            self._check_peer(by.peer)
        if hook is None:
            replaceable = self._replaceable(config.task)
            if replaceable is not None:
                await self._forget(replaceable)
                return False
            hook = Hook(config, by, self._free_slot(), self._agent.member)
        is_over = is_over and not is_live
        changed = attrs.evolve(hook, config=config, by=by, is_over=is_over, member=self._agent.member)
        if not await self._agent.notes.write_notes(NOTES, {hook.slot: to_note(changed)}, at=at):
            return False
        hook.config, hook.by, hook.is_over, hook.member = config, by, is_over, changed.member
        hook.failing = False
        self._hooks[hook.key] = hook
        if not is_live and not is_over:
            hook.scope = trio.CancelScope()
            self._nursery.start_soon(self._follow, hook, hook.scope, after)
        return True

    async def load(self) -> None:
        """Load the stored configurations, and follow those of other members. Raises `JournalError`."""
        await self._notes.follow(NOTES, self._apply)
        self._living = await self._agent.living()
        if paused := sum(not hook.is_over and not self._is_live(hook) for hook in self._hooks.values()):
            log.warning(
                "%d push notification configuration(s) paused: credentials are not kept over a restart, so "
                "clients have to set them again",
                paused,
            )

    async def _apply(self, notes: Mapping[str, Json | None]) -> None:
        """Take over what other members have changed."""
        for slot, note in notes.items():
            found = from_note(slot, note)
            known = next((hook for hook in self._hooks.values() if hook.slot == slot), None)
            if found is not None and known is not None and found.member == self._agent.member:
                continue  # this member has changed it
            if known is not None:
                self._remove(known)
            if found is not None:
                self._hooks[found.key] = found

    async def _refresh(self) -> None:
        """See what other members have changed. Raises `JournalError`."""
        await self._notes.poll()
        self._living = await self._agent.living()

    def _is_live(self, hook: Hook) -> bool:
        """Whether a member follows the task."""
        return hook.scope is not None or (hook.member != self._agent.member and hook.member in self._living)

    # -------------------------------------------------------------------- keeping

    def _find(self, request: GetPush) -> Hook:
        found = (hook for hook in self._of(request.task) if request.id in (None, hook.config.id))
        hook = next(found, None)
        if hook is None:
            raise A2AError("TASK_NOT_FOUND", "the task has no such push notification configuration")
        return hook

    def _of(self, task: str) -> Sequence[Hook]:
        return [hook for hook in self._hooks.values() if hook.config.task == task]

    def _shown(self, hook: Hook) -> PushConfig:
        return attrs.evolve(hook.config, token=None, credentials=None)

    def _check_peer(self, peer: str) -> None:
        live = sum(hook.scope is not None and hook.by.peer == peer for hook in self._hooks.values())
        if live >= MOST_OF_A_PEER:
            raise A2AError(
                "UNSUPPORTED_OPERATION", f"one address has at most {MOST_OF_A_PEER} live configurations"
            )

    def _replaceable(self, task: str) -> Hook | None:
        """The configuration that a new one of the task would replace; None: there is room. Raises `A2AError`
        if the limit is reached."""
        if len(self._of(task)) >= MOST_OF_A_TASK:
            raise A2AError("UNSUPPORTED_OPERATION", f"a task has at most {MOST_OF_A_TASK} configurations")
        if len(self._hooks) < MOST_CONFIGS:
            return None
        hooks = self._hooks.values()
        idle = [hook for hook in hooks if hook.is_over]
        idle += [hook for hook in hooks if not hook.is_over and not self._is_live(hook)]
        if not idle:
            raise A2AError("UNSUPPORTED_OPERATION", f"the agent has {MOST_CONFIGS} configurations")
        return idle[0]

    def _free_slot(self) -> str:
        used = {hook.slot for hook in self._hooks.values()}
        return next(slot for slot in map(str, range(MOST_CONFIGS)) if slot not in used)

    async def _forget(self, hook: Hook) -> None:
        """Delete a configuration. The caller holds `_writing`."""
        await self._agent.notes.write_notes(NOTES, {hook.slot: {}})
        self._remove(hook)

    def _remove(self, hook: Hook) -> None:
        self._hooks.pop(hook.key, None)
        if hook.scope is not None:
            hook.scope.cancel()

    # ------------------------------------------------------------------ following

    async def _follow(self, hook: Hook, scope: trio.CancelScope, after: int) -> None:
        with scope:
            try:
                is_over = await self._send_updates(hook, after)
            except (AgentError, A2AError) as error:
                is_over = False
                log.warning("push notifications of a task ended: %s", error)
            except JournalError:
                raise
            except Exception:
                # An error in one follower must not end the process.
                is_over = False
                log.exception("push notifications of a task ended")
            async with self._writing:
                hook.scope = None
                if is_over:
                    hook.is_over = True
                    await self._agent.notes.write_notes(NOTES, {hook.slot: to_note(hook)})
                elif not await self._exists(hook):
                    await self._forget(hook)

    async def _exists(self, hook: Hook) -> bool:
        try:
            await self._agent.log_end(context_of(hook.config.task))
        except AgentError as error:
            return error.code != "conversation_not_found"
        return True

    async def _send_updates(self, hook: Hook, after: int) -> bool:
        """Send all updates. Returns whether the task has ended, as opposed to its conversation or the
        agent."""
        id = hook.config.task
        tasks = TaskLog(context_of(id))
        end: int | None = None
        """The event after which the task is over."""
        async with aclosing(entries(self._agent, tasks.context)) as found:
            async for entry in found:
                tasks.hitl = hook.by.hitl
                updates = [each for each in tasks.apply(entry) if each.task == id]
                if entry.seq > after and updates:
                    task = known_task(tasks, id)
                    # Version 0.3 sends the whole task, so once per event is enough.
                    for update in updates if hook.by.is_v1 else updates[-1:]:
                        await self._deliver(hook, update, task)
                    if task.status.state in TERMINAL:
                        # A message in the inbox may continue the task with another run.
                        now = await read_tasks(self._agent, tasks.context)
                        end = now.last_seq if known_task(now, id).status.state in TERMINAL else None
                if end is not None and entry.seq >= end:
                    return True
        return False

    async def _deliver(self, hook: Hook, update: Update, task: Task) -> None:
        """Send one update, or give up after all attempts. While a receiver fails, only updates that end or
        interrupt the task get more than one attempt; otherwise the client would learn of these late."""
        notification = (
            v1_codec.write_notification(update) if hook.by.is_v1 else v03_codec.write_notification(task)
        )
        media_type = MEDIA_TYPE if hook.by.is_v1 else V03_MEDIA_TYPE
        body = dump_wire(notification)
        attempts = 1 if hook.failing and not _is_urgent(update) else ATTEMPTS
        for pause in _pauses(attempts):
            if hook.by.lifetime.has_ended:
                raise A2AError("PERMISSION_DENIED", "the credential of their client has ended")
            target = target_of(hook.config.url)
            try:
                await self._post.send(target, _headers(hook.config, media_type), body)
            except NotDelivered as error:
                if error.again and pause is not None:
                    await trio.sleep(pause)
                    continue
                if not hook.failing:
                    log.warning("a push notification to %s was given up: %s", target.origin, error)
                hook.failing = True
            else:
                hook.failing = False
            return


@asynccontextmanager
async def open_push(agent: Agent, *, resolve: ResolveHost = resolve) -> AsyncIterator[PushNotifier]:
    """Send notifications during the block. `resolve` resolves host names."""
    post = Post(agent.config.server.push_to_private, resolve)
    try:
        async with trio.open_nursery() as nursery:
            notifier = PushNotifier(agent, agent.followed_notes, nursery, post)
            await notifier.load()
            yield notifier
            nursery.cancel_scope.cancel()
    finally:
        with trio.move_on_after(CLOSING, shield=True):
            await post.aclose()


def _is_urgent(update: Update) -> bool:
    return isinstance(update, StatusUpdate) and update.status.state in TERMINAL | INTERRUPTED


def _pauses(attempts: int) -> Sequence[float | None]:
    """Seconds after each attempt; None after the last one."""
    pauses = (min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) for number in range(attempts - 1))
    return [*(pause * random.uniform(0.5, 1.0) for pause in pauses), None]


def _headers(config: PushConfig, media_type: str) -> Mapping[str, str]:
    headers = {"Content-Type": media_type, "User-Agent": "agent-stop-and-go"}
    if config.credentials is not None:
        headers["Authorization"] = f"{config.scheme or 'Bearer'} {config.credentials}"
    if config.token is not None:
        headers["X-A2A-Notification-Token"] = config.token
    return headers
