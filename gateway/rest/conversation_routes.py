"""The routes of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ...actors.agent.agent import Agent
from ...actors.common.errors import AgentError, check_fields
from ...actors.conversation.result import Turn
from ...actors.log.words.events import Origin
from ..contract.attachments import Content, File, MessagePart, UnusableFile, content_of
from ..contract.shapes import ConversationBody
from ..http import headers, query
from ..http.body import kind, message_of
from ..http.errors import NOT_STORED, RequestError
from ..http.request import HttpRequest, set_conversation
from ..http.responses import Reply, View, nothing, reply_in_parts
from . import views
from .refused_request import name_conversation
from .short_ids import is_abbreviated


@attrs.frozen
class Conversations:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {
            "createConversation": self.create,
            "listConversations": self.list,
            "getConversation": self.get,
            "sendMessage": self.send,
            "cancelConversation": self.cancel,
            "completeConversation": self.complete,
            "resumeConversation": self.resume,
            "deleteConversation": self.delete,
        }

    def _for(self, request: HttpRequest) -> Agent:
        return self.agent.acting_as(request.principal)

    async def create(self, request: HttpRequest) -> Reply:
        key = headers.post_key(request)
        body = await request.json(("message", "attachments"))
        content = _content(body)
        if content is None and body.get("message") is not None:
            raise message_required()
        turn = await self._for(request).start_conversation(
            None if content is None else content.text,
            pictures=() if content is None else content.pictures,
            key=key,
            session_id=request.session_id(key),
            token=headers.tool_token(request),
            origin=_origin(request),
        )
        location = {"Location": f"/conversations/{turn.conversation.id}"}
        return await turn_reply(self.agent, request, turn, 201, location)

    async def list(self, request: HttpRequest) -> Reply:
        args = request.args
        query.known(args, ("status", "q", "limit", "cursor", "view"))
        page = await self._for(request).conversations(
            status=query.word(args, "status", views.STATUSES),
            q=query.text(args, "q"),
            limit=query.limit(args),
            cursor=query.text(args, "cursor"),
            full=query.word(args, "view", ("full",)) == "full",
        )
        return await reply_in_parts(views.conversations_view(page, tree=self.agent.config.has_tree))

    async def get(self, request: HttpRequest, id: str) -> Reply:
        conversation = await self._for(request).get(id)
        set_conversation(conversation.id, conversation.head.session_id)
        view = views.conversation_view(conversation, tree=self.agent.config.has_tree)
        return await reply_in_parts(ConversationBody(conversation=view))

    async def send(self, request: HttpRequest, id: str) -> Reply:
        key = headers.post_key(request)
        content = _content(await request.json(("message", "attachments")))
        if content is None:
            raise message_required()
        wait = not headers.wants_async(request.headers)
        token, origin = headers.tool_token(request), _origin(request)
        agent = self._for(request)
        send = agent.send if wait else agent.post
        turn = await send(id, content.text, pictures=content.pictures, key=key, token=token, origin=origin)
        if turn.result is not None and turn.result.not_stored:
            set_conversation(turn.conversation.id, turn.conversation.head.session_id)
            minimal = headers.wants_minimal(request.headers)
            body = views.not_stored_view(turn, tree=self.agent.config.has_tree, minimal=minimal)
            return await reply_in_parts(body, NOT_STORED[0], _applied(minimal=minimal))
        return await (turn_reply(self.agent, request, turn) if wait else accepted(self.agent, request, turn))

    async def cancel(self, request: HttpRequest, id: str) -> Reply:
        key = headers.post_key(request)
        await request.json(known=())
        return await turn_reply(self.agent, request, await self._for(request).cancel(id, key=key))

    async def complete(self, request: HttpRequest, id: str) -> Reply:
        key = headers.post_key(request)
        await request.json(known=())
        return await turn_reply(self.agent, request, await self._for(request).complete(id, key=key))

    async def resume(self, request: HttpRequest, id: str) -> Reply:
        key = headers.post_key(request)
        await request.json(known=())
        token = headers.tool_token(request)
        if token is None:
            raise RequestError(
                400,
                "token_required",
                "a bearer token is required",
                hint="Send it as `Authorization: Bearer TOKEN`.",
            )
        return await turn_reply(
            self.agent, request, await self._for(request).resume(id, token=token, key=key)
        )

    async def delete(self, request: HttpRequest, id: str) -> Reply:
        try:
            await name_conversation(self._for(request), request, id)
            await self._for(request).delete(id)
        except AgentError as error:
            if error.code == "conversation_not_found" and is_abbreviated(id):
                raise AgentError(error.code, error.message, hint="Deleting takes the whole id.") from None
            raise
        return nothing()


def message_required() -> RequestError:
    return RequestError(400, "message_required", "message is required")


def _content(body: Mapping[str, Any]) -> Content | None:
    """The message of a body with its attachments; None without either."""
    message, given = message_of(body), body.get("attachments")
    if given is not None and not isinstance(given, list):
        raise _invalid("attachments", f"must be an array, not {kind(given)}")
    parts: list[MessagePart] = [] if message is None else [message]
    first = len(parts)
    parts += [_file(each, f"attachments[{index}]") for index, each in enumerate(given or ())]
    try:
        return content_of(parts) if parts else None
    except UnusableFile as error:
        raise error.refused(f"attachments[{error.index - first}]") from None


def _file(given: Any, place: str) -> File:
    if not isinstance(given, dict):
        raise _invalid(place, f"must be an object, not {kind(given)}")
    check_fields(given, ("data", "media_type", "name"), place)
    for name, value in given.items():
        if not isinstance(value, str):
            raise _invalid(f"{place}.{name}", f"must be a string, not {kind(value)}")
    if "data" not in given:
        raise _invalid(f"{place}.data", "is required: the file in base64")
    return File(**given)


def _invalid(place: str, why: str) -> RequestError:
    text = f"invalid request body: {place} {why}"
    return RequestError(400, "invalid_request_body", text, details={"field": place})


def _origin(request: HttpRequest) -> Origin | None:
    """The origin that the run's calls of remote agents pass on."""
    return None if request.traceparent is None else Origin((), request.traceparent)


async def turn_reply(
    agent: Agent, request: HttpRequest, turn: Turn, status: int = 200, more: Mapping[str, str] = {}
) -> Reply:
    """The answer with a turn; with `Prefer: return=minimal`, without the messages before it."""
    set_conversation(turn.conversation.id, turn.conversation.head.session_id)
    minimal = headers.wants_minimal(request.headers)
    view = views.turn_view(turn, tree=agent.config.has_tree, minimal=minimal)
    return await reply_in_parts(view, status, {**more, **_applied(minimal=minimal, soon=status == 202)})


def _applied(*, minimal: bool, soon: bool = False) -> Mapping[str, str]:
    """The preferences that an answer follows, as a header."""
    found = [*([headers.RESPOND_ASYNC] if soon else []), *([headers.RETURN_MINIMAL] if minimal else [])]
    return {"Preference-Applied": ", ".join(found)} if found else {}


async def accepted(agent: Agent, request: HttpRequest, turn: Turn) -> Reply:
    """The answer to `Prefer: respond-async`: the command is durable; `Location` is the conversation."""
    more = {"Location": f"/conversations/{turn.conversation.id}"}
    return await turn_reply(agent, request, turn, 202, more)
