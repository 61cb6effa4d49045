"""The codec of OpenAI's Responses API, which the models need that reason and call tools. Pure.

The server keeps nothing (`store: false`): each request has the whole history as items. Rules:

* A reply is kept as the items of its `output`, and goes back as these items in the same order, so that the
  model gets its encrypted reasoning back. Only the endpoint, organization and model family that made it can
  open it: `origin_of`. Others get texts and calls.
* The id of an item is a promise that its partner is there. The server refuses reasoning without the item
  after it, and such an item, if it has an id, without its reasoning. So reasoning that cannot be sent takes
  the ids of the items after it along, and reasoning at the end is left out.
* `status` and members that are null are refused in items that go back: each kind has a list of members.
* The system text is the first message, because newer models read `instructions` last, where it is not cached.
* `strict: false`, because without it the server makes optional arguments required.

Sources: https://platform.openai.com/docs/api-reference/responses, the guides "Reasoning models",
"Conversation state", "Function calling" and "Using GPT-6.2", the types of the SDK openai 3.54; the refusals
from issues of clients: vercel/ai#7099 and #7543, openai-agents-python#1611, litellm#13420, codex#12669.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, assert_never

import attrs

from ....config.sections.models import ModelSpec, reasons
from ....runtime.json_text import Written, dump_wire
from ...tools.pictures import Picture
from ..messages.messages import (
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
    UserMessage,
    Verbatim,
)
from .codec import (
    CallIdentity,
    make_reply,
    merged,
    not_understood,
    own_names,
    tool_calls,
    wire_name,
    with_final_arguments,
    without_repeats,
)
from .json_fields import array, mapping, text
from .profiles import dialect_for
from .responses_stream import ResponsesStream, failed, text_of, usage_of
from .thinking_text import answer_in
from .turns import CallResult, ChatTurn, ModelTurn, PastReply, TurnStyle, UserTurn, wire_turns

ResponseItem: TypeAlias = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of an item, and of a call. Proxies make longer ones."""
_FEWEST_TOKENS = 16
"""The server refuses a smaller `max_output_tokens`."""
_KNOWS_PHASES = re.compile(r"gpt-(5\.([3-9]|\d\d)|[6-9]|\d\d).*")
"""Models that stop early if the phase of an earlier text is missing: gpt-5.3 and later."""
_MOVED: Mapping[str, tuple[str, ...]] = {
    "max_completion_tokens": ("max_output_tokens",),
    "max_tokens": ("max_output_tokens",),
    "reasoning_effort": ("reasoning", "effort"),
    "verbosity": ("text", "verbosity"),
}
"""Options of chat completions by their place in this API, for agent files from before it."""


@attrs.frozen
class ResponsesFlavour:
    """The differences of a server from the others."""

    developer: bool = True
    """The system text is a message of the role `developer`; else it is `instructions`."""
    stores: bool = True
    """The server knows `store`, and would keep each reply without `store: false`."""
    encrypts: bool = True
    """Reasoning comes encrypted, and plain reasoning is refused; else it goes back as it came."""
    cache_key: bool = True
    """The server knows `prompt_cache_key`."""
    pictures_inside: bool = True
    """A result may have pictures; else they are in a message after all results."""

    by_effort: bool = False
    """The name of a model says nothing about it: whether it reasons is told by an effort in the options."""

    def asks_for_reasoning(self, spec: ModelSpec) -> bool:
        if self.by_effort:
            return bool({"reasoning", "reasoning_effort"} & spec.options.keys())
        return self.encrypts and reasons(spec.model)


OPENAI = ResponsesFlavour()
AZURE = ResponsesFlavour(by_effort=True)
COMPATIBLE = ResponsesFlavour(developer=False, encrypts=False, cache_key=False, pictures_inside=False)
"""vLLM, llama.cpp, Ollama, LM Studio, OpenRouter and others."""


def origin_of(spec: ModelSpec, url: str, headers: Mapping[str, str]) -> str:
    """The key of replies whose reasoning a model can open: endpoint, organization, project, model family."""
    known = {name.lower(): value for name, value in headers.items()}
    owner = [url, known.get("openai-organization"), known.get("openai-project")]
    family = re.match(r"gpt-\d+(\.\d+)?|o\d+", spec.model)
    # Hashed, because an address may contain credentials.
    digest = hashlib.sha256(dump_wire(owner)).hexdigest()[:16]
    return f"{spec.provider} responses {family[0] if family else spec.model} {digest}"


def _silent(sentence: str) -> None:
    pass


@attrs.frozen
class ResponsesCodec:
    spec: ModelSpec
    origin: str
    """See `origin_of`."""
    flavour: ResponsesFlavour = OPENAI
    plain: bool = False
    """Send neither reasoning nor ids of items: the server could not open them."""
    removed: Callable[[str], None] = attrs.field(default=_silent, eq=False)
    """Takes the reason why the server removed reasoning from a request."""

    # ------------------------------------------------------------------------- requests

    def body(self, request: ModelRequest) -> dict[str, Any]:
        spec, flavour = self.spec, self.flavour
        body: dict[str, Any] = {"model": spec.model, "input": self._input(request)}
        if flavour.stores:
            body["store"] = False
        if not flavour.developer and request.system.strip():
            body["instructions"] = request.system
        if flavour.asks_for_reasoning(spec):
            body["include"] = ["reasoning.encrypted_content"]
        if request.tools:
            dialect = dialect_for(spec)
            body["tools"] = [
                {
                    "type": "function",
                    "name": wire_name(tool.name),
                    "description": tool.shown(dialect)[0],
                    "parameters": tool.shown(dialect)[1],
                    "strict": False,
                }
                for tool in request.tools
            ]
        if spec.max_tokens is not None:
            body["max_output_tokens"] = max(_FEWEST_TOKENS, spec.max_tokens)
        if spec.temperature is not None:
            body["temperature"] = spec.temperature
        if spec.stream:
            body["stream"] = True
        if flavour.cache_key:
            body["prompt_cache_key"] = _cache_key(request)
        return merged(body, _moved(spec.options))

    def _input(self, request: ModelRequest) -> list[ResponseItem] | Written:
        system: list[ResponseItem] = []
        if self.flavour.developer and request.system.strip():
            system = [{"role": "developer", "content": request.system}]
        style = TurnStyle(self, self.spec.name, self.origin, _ID, self._turn)
        return wire_turns(request, style).after(system)

    def _turn(self, turn: ChatTurn, before: ChatTurn | None) -> list[ResponseItem]:
        match turn:
            case UserTurn(results=results, texts=texts, pictures=pictures):
                inside = self.flavour.pictures_inside
                items = [_result(result, inside) for result in results]
                content = [] if inside else [part for result in results for part in _beside(result)]
                content += _pictures(pictures)
                content += [{"type": "input_text", "text": each} for each in texts]
                return [*items, {"role": "user", "content": content}] if content else items
            case ModelTurn(replies=replies):
                return [item for reply in replies for item in self._reply_items(reply)]
            case _:
                assert_never(turn)

    def _reply_items(self, reply: PastReply) -> list[ResponseItem]:
        items = [mapping(item) for item in array(reply.verbatim)]
        asked = [item.get("arguments") for item in items if item.get("type") == "function_call"]
        final = with_final_arguments(asked, reply.calls)
        if not items or final is None:
            return self._said_items(reply)
        ids = not self.plain and all(_ID.fullmatch(text(item.get("id"))) for item in items)
        calls = iter(zip(reply.calls, final, strict=True))
        found: list[ResponseItem] = []
        whole = ids
        """Whether the next item goes back with its id."""
        for item in items:
            match item.get("type"):
                case "reasoning":
                    thought = None if self.plain else self._thought(item, ids)
                    whole = ids and thought is not None
                    if thought is None:
                        _drop_thoughts(found)
                    else:
                        found.append(thought)
                case "message":
                    found += _message(item, whole)
                case "function_call":
                    call, edited = next(calls)
                    found.append(_call(call, item, edited, whole))
                case _ if whole:
                    found.append(dict(item))
                case _:
                    pass  # cannot be sent without its id
        _drop_thoughts(found)
        return found

    def _said_items(self, reply: PastReply) -> list[ResponseItem]:
        """A reply that another model or endpoint made."""
        items: list[ResponseItem] = []
        if reply.text:
            items.append({"role": "assistant", "content": reply.text})
            if self.flavour.developer and _KNOWS_PHASES.fullmatch(self.spec.model):
                items[0]["phase"] = "commentary" if reply.calls else "final_answer"
        return items + [_call(call, {}, call.arguments, whole=False) for call in reply.calls]

    def _thought(self, item: Mapping[str, Any], ids: bool) -> ResponseItem | None:
        """Reasoning as the server takes it back; None if it cannot be sent."""
        kept: ResponseItem = {"type": "reasoning", "summary": array(item.get("summary"))}
        if ids:
            kept["id"] = item["id"]
        if item.get("encrypted_content"):
            kept["encrypted_content"] = item["encrypted_content"]
        if not self.flavour.encrypts and item.get("content"):
            kept["content"] = item["content"]
        return kept if kept.keys() & {"encrypted_content", "content"} else None

    # -------------------------------------------------------------------------- replies

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        answer = mapping(body)
        given = (
            {name: value for name, value in item.items() if value is not None}
            for item in map(mapping, array(answer.get("output")))
            if item
        )
        items = without_repeats(filter(None, map(_without_reasoning, given)), _asked)
        usage = usage_of(answer)
        status = text(answer.get("status"))
        if status == "failed" or answer.get("error"):
            raise failed(answer)
        if status not in ("completed", "incomplete"):
            raise not_understood(f'its status is "{status}"', usage)
        for change in array(answer.get("input_transformations")):
            self.removed(text(mapping(change).get("reason")) or "no reason given")
        reply_text = "\n\n".join(filter(None, map(text_of, items)))
        calls = tool_calls(filter(None, map(_asked, items)), own_names(request.tools))
        if status == "incomplete" and not reply_text.strip():
            _check_cut(text(mapping(answer.get("incomplete_details")).get("reason")), calls, usage)
        cut = status == "incomplete" or any(
            _asked(item) is not None and item.get("status") == "incomplete" for item in items
        )
        verbatim = Verbatim(self.origin, items) if items else None
        return make_reply(reply_text, calls, usage, reason=status, cut=cut, verbatim=verbatim)

    def stream(self, request: ModelRequest, emit: Emit) -> ResponsesStream:
        return ResponsesStream(self, request, emit)


def _check_cut(reason: str, calls: Sequence[ToolCall], usage: Usage) -> None:
    """Refuse a reply without text that ended early. With calls, it is refused where all cut calls are."""
    if reason == "content_filter":
        raise ModelFailed("the provider's content filter stopped the reply", usage=usage)
    if calls:
        return
    if reason == "max_output_tokens":
        raise ModelFailed(
            "no room left for an answer: the reply reached max_output_tokens before it began (max_tokens in "
            "the agent file; reasoning counts)",
            usage=usage,
        )
    raise ModelFailed(f'the provider broke the reply off before it began (reason "{reason}")', usage=usage)


# ----------------------------------------------------------------- items


def _without_reasoning(item: ResponseItem) -> ResponseItem | None:
    """The item without the reasoning that servers of open models leave in its text; None: it has no more."""
    said = text_of(item)
    answer = answer_in(said)
    if answer == said:
        return item
    return {**item, "content": [{"type": "output_text", "text": answer}]} if answer else None


def _asked(item: Mapping[str, Any]) -> CallIdentity | None:
    if item.get("type") != "function_call":
        return None
    id = text(item.get("call_id")) or text(item.get("id"))
    return id, text(item.get("name")), item.get("arguments")


def _result(result: CallResult, inside: bool) -> ResponseItem:
    """A result, with its pictures `inside` or not. The API has no mark for errors, so the text names them."""
    said = f"Error: {result.content}" if result.is_error else result.content
    output: Any = said
    if inside and result.pictures:
        output = [
            *([{"type": "input_text", "text": said}] if said.strip() else []),
            *_pictures(result.pictures),
        ]
    return {"type": "function_call_output", "call_id": result.id, "output": output}


def _pictures(pictures: Sequence[Picture]) -> list[ResponseItem]:
    return [{"type": "input_image", "image_url": each.url, "detail": "auto"} for each in pictures]


def _beside(result: CallResult) -> list[ResponseItem]:
    """Pictures for a server that takes only text in a result."""
    pictures = _pictures(result.pictures)
    return [{"type": "input_text", "text": result.label}, *pictures] if pictures else []


def _call(
    call: ToolCall, item: Mapping[str, Any], edited: Mapping[str, Any] | None, whole: bool
) -> ResponseItem:
    """A call with the id of this request and its final arguments. `edited`: None if they are the model's."""
    raw = item.get("arguments")
    same = edited is None and isinstance(raw, str) and raw.strip()
    found: ResponseItem = {
        "type": "function_call",
        "call_id": call.id,
        "name": wire_name(call.name),
        "arguments": raw if same else dump_wire(call.arguments).decode(),
    }
    # Of calls that a program of the model or a search for tools made.
    found |= {name: item[name] for name in ("caller", "namespace") if item.get(name) is not None}
    return {**found, "id": item["id"]} if whole else found


def _message(item: Mapping[str, Any], whole: bool) -> Iterable[ResponseItem]:
    """A text of the model. Strict servers demand all members of a message that has an id."""
    phase = {"phase": item["phase"]} if item.get("phase") is not None else {}
    if not whole:
        said = text_of(item)
        return [{"role": "assistant", "content": said, **phase}] if said.strip() else []
    content = [_part(mapping(part)) for part in array(item.get("content"))]
    status = text(item.get("status")) or "completed"
    return [
        {
            "type": "message",
            "id": item["id"],
            "role": "assistant",
            "status": status,
            "content": content,
            **phase,
        }
    ]


def _part(part: Mapping[str, Any]) -> ResponseItem:
    kept = {name: value for name, value in part.items() if name != "logprobs" and value is not None}
    return {"annotations": [], **kept} if kept.get("type") == "output_text" else kept


def _drop_thoughts(items: list[ResponseItem]) -> None:
    """Leave out reasoning whose next item is not sent."""
    while items and items[-1].get("type") == "reasoning":
        items.pop()


# ----------------------------------------------------------------- the rest of a request


def _cache_key(request: ModelRequest) -> str:
    """Equal for the requests of a conversation, which begin alike and should meet the same cache."""
    first = next((each.text for each in request.messages if isinstance(each, UserMessage)), "")
    return hashlib.sha256(dump_wire([request.system, first])).hexdigest()[:32]


def _moved(options: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: value for name, value in options.items() if name not in _MOVED}
    for name in _MOVED.keys() & options.keys():
        value = options[name]
        for part in reversed(_MOVED[name]):
            value = {part: value}
        found = merged(value, found)  # an option of this API wins
    return found
