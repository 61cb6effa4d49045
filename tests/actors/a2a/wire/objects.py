"""Random objects of A2A for the tests, and the same objects of the official SDK (`meant`)."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, assert_never, get_args

from a2a.types import a2a_pb2 as kit
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from hypothesis import strategies as st

from stopgo.actors.a2a.wire.task import (
    Artifact,
    ArtifactUpdate,
    Data,
    File,
    Link,
    Message,
    Part,
    PushConfig,
    State,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    Text,
)

# --------------------------------------------------------------------------- made up

NAMES = st.text(min_size=1, max_size=5)
OPTIONAL_NAMES = st.none() | NAMES
NAME_LISTS = st.lists(NAMES, max_size=2).map(tuple)
# Beyond 2**53 a number in ProtoJSON is not exact.
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
METADATA = st.none() | st.dictionaries(NAMES, JSON, min_size=1, max_size=2)
TIMES = st.integers(0, 4 * 10**12).map(lambda milliseconds: milliseconds / 1000)


def parts(about_content: st.SearchStrategy[str | None], *, files: bool = True) -> st.SearchStrategy[Part]:
    """`about_content`: the media type and file name of texts and data, which only 1.0 knows."""
    content = st.binary(max_size=5).map(lambda data: base64.b64encode(data).decode())
    return st.one_of(
        st.builds(Text, st.text(max_size=5), about_content, about_content, METADATA),
        st.builds(Data, JSON, about_content, about_content, METADATA),
        st.builds(Link, NAMES, OPTIONAL_NAMES, OPTIONAL_NAMES, METADATA),
        *([st.builds(File, content, OPTIONAL_NAMES, OPTIONAL_NAMES, METADATA)] if files else []),
    )


def messages(
    parts: st.SearchStrategy[Part],
    *,
    roles: Sequence[str] = ("user", "agent"),
    references: st.SearchStrategy[Any] = NAME_LISTS,
) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        id=NAMES,
        role=st.sampled_from(roles),
        parts=st.lists(parts, min_size=1, max_size=3).map(tuple),
        task=OPTIONAL_NAMES,
        context=OPTIONAL_NAMES,
        references=references,
        extensions=NAME_LISTS,
        metadata=METADATA,
    )


def items(
    parts: st.SearchStrategy[Part], messages: st.SearchStrategy[Message]
) -> st.SearchStrategy[StreamItem]:
    artifacts = st.builds(
        Artifact,
        id=NAMES,
        name=OPTIONAL_NAMES,
        description=OPTIONAL_NAMES,
        parts=st.lists(parts, min_size=1, max_size=2).map(tuple),
        extensions=NAME_LISTS,
        metadata=METADATA,
    )
    statuses = st.builds(Status, st.sampled_from(get_args(State)), st.none() | TIMES, st.none() | messages)
    of_task = {"context": NAMES, "metadata": METADATA}
    return st.one_of(
        messages,
        st.builds(
            Task,
            id=NAMES,
            status=statuses,
            artifacts=st.lists(artifacts, max_size=2).map(tuple),
            history=st.lists(messages, max_size=2).map(tuple),
            **of_task,
        ),
        st.builds(StatusUpdate, task=NAMES, status=statuses, final=st.booleans(), **of_task),
        st.builds(
            ArtifactUpdate,
            task=NAMES,
            artifact=artifacts,
            append=st.booleans(),
            last=st.booleans(),
            **of_task,
        ),
    )


PUSH = PushConfig(task="t1", id="p1", url="https://c/hook", token="tk", scheme="Bearer", credentials="z")
BARE_PUSH = PushConfig(task="t1", id="p2", url="https://c/hook")

TASK = Task(
    id="t1",
    context="c1",
    status=Status(
        "input-required",
        1795000000.125,
        Message(id="m2", role="agent", parts=(Text("Approve?"), Data({"approval": {"id": "a1"}}))),
    ),
    artifacts=(Artifact(id="answer", parts=(Text("first"),)), Artifact(id="file", parts=(Text("last"),))),
    history=(Message(id="m1", role="user", parts=(Text("hi"),), task="t1", context="c1"),),
)

# ---------------------------------------------------------------------- in the SDK


def meant(item: StreamItem) -> kit.StreamResponse:
    """The same as an object of the official kit, in version 1.0, which has no `final`."""
    match item:
        case Task():
            return kit.StreamResponse(task=task(item))
        case Message():
            return kit.StreamResponse(message=message(item))
        case StatusUpdate():
            update = kit.TaskStatusUpdateEvent(
                task_id=item.task,
                context_id=item.context,
                status=_status(item.status),
                metadata=_struct(item.metadata),
            )
            return kit.StreamResponse(status_update=update)
        case ArtifactUpdate():
            return kit.StreamResponse(
                artifact_update=kit.TaskArtifactUpdateEvent(
                    task_id=item.task,
                    context_id=item.context,
                    artifact=_artifact(item.artifact),
                    append=item.append,
                    last_chunk=item.last,
                    metadata=_struct(item.metadata),
                )
            )
        case _:
            assert_never(item)


def task(task: Task) -> kit.Task:
    return kit.Task(
        id=task.id,
        context_id=task.context,
        status=_status(task.status),
        artifacts=[_artifact(artifact) for artifact in task.artifacts],
        history=[message(said) for said in task.history],
        metadata=_struct(task.metadata),
    )


def message(message: Message) -> kit.Message:
    return kit.Message(
        message_id=message.id,
        role={"user": kit.ROLE_USER, "agent": kit.ROLE_AGENT}[message.role],
        parts=[_part(part) for part in message.parts],
        task_id=message.task or "",
        context_id=message.context or "",
        reference_task_ids=message.references,
        extensions=message.extensions,
        metadata=_struct(message.metadata),
    )


def push(config: PushConfig) -> kit.TaskPushNotificationConfig:
    authentication = kit.AuthenticationInfo(scheme=config.scheme, credentials=config.credentials)
    return kit.TaskPushNotificationConfig(
        task_id=config.task,
        id=config.id,
        url=config.url,
        token=config.token,
        authentication=authentication if config.scheme else None,
    )


def _status(status: Status) -> kit.TaskStatus:
    found = kit.TaskStatus(state=f"TASK_STATE_{status.state.upper().replace('-', '_')}")
    if status.at is not None:
        found.timestamp.FromMilliseconds(round(status.at * 1000))
    if status.message is not None:
        found.message.CopyFrom(message(status.message))
    return found


def _artifact(artifact: Artifact) -> kit.Artifact:
    return kit.Artifact(
        artifact_id=artifact.id,
        name=artifact.name,
        description=artifact.description,
        parts=[_part(part) for part in artifact.parts],
        extensions=artifact.extensions,
        metadata=_struct(artifact.metadata),
    )


def _part(part: Part) -> kit.Part:
    about: Any = {
        "media_type": part.media_type,
        "filename": part.filename,
        "metadata": _struct(part.metadata),
    }
    match part:
        case Text():
            return kit.Part(text=part.text, **about)
        case File():
            return kit.Part(raw=base64.b64decode(part.content), **about)
        case Link():
            return kit.Part(url=part.url, **about)
        case Data():
            return kit.Part(data=ParseDict(part.data, Value()), **about)
        case _:
            assert_never(part)


def _struct(metadata: Any) -> Struct | None:
    return None if metadata is None else ParseDict(metadata, Struct())
