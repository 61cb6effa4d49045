"""The reference of the Python interface, made from the docstrings of the names that `stopgo` has.

What has no docstring is not a part of the interface, and so are methods of values: these are for the agent.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import stopgo

GROUPS = {
    "Open an agent": (
        "open_agent",
        "load_config",
        "AgentConfig",
        "ApprovalConfig",
        "LlmNode",
        "ProcessClock",
    ),
    "The agent": ("Agent",),
    "Without trio": ("blocking", "BlockingAgent", "for_asyncio", "AsyncioAgent"),
    "Conversations": (
        "Turn",
        "AnsweredTurn",
        "Result",
        "Conversation",
        "ConversationPage",
        "ConversationItem",
        "Message",
        "CallView",
        "RunHead",
        "Spent",
    ),
    "Approvals": (
        "Approval",
        "ApprovalPage",
        "ToolQuestion",
        "CheckpointQuestion",
        "OutcomeQuestion",
        "ElicitationQuestion",
        "ProxyQuestion",
    ),
    "Events": (
        "Event",
        "ModelDelta",
        "TextDelta",
        "ArgumentsDelta",
        "ToolProgress",
        "Progress",
        "Announced",
        "Gap",
    ),
    "Tools and health": (
        "ListedTool",
        "Tool",
        "Hints",
        "parse_tool_name",
        "Health",
        "PartHealth",
        "HaltState",
    ),
    "Models of your own": (
        "Model",
        "ModelRequest",
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
        "Picture",
        "picture_in",
        "ModelTool",
        "Emit",
        "ModelReply",
        "ToolCall",
        "Usage",
        "ModelFailed",
        "UnknownProvider",
    ),
    "Tests of agents": ("ToolStub", "crash_at_every_step", "CrashReport"),
    "Errors": (
        "AgentError",
        "ConfigError",
        "Problem",
        "StartError",
        "JournalBusy",
        "JournalTooNew",
        "JournalBroken",
    ),
}
"""Every name of the interface, in the order of the page."""
ACTIVE = {"Agent", "AgentReads", "Model"}
"""Classes whose methods are for programs."""
INTERNAL = {
    "AgentReads": {"catalogue", "id", "inbox", "log_end", "precedents", "title"},
    "Agent": {"look_at", "notes"},
    "AgentConfig": {"enabled_servers"},
    "BaseNode": {"remote_agents"},
    "Spent": {"usage"},
    "Tool": {"fingerprint", "misleading", "names", "size"},
    "ApprovalConfig": {"action", "contradiction_asks"},
    "Hints": {"said", "strictness"},
    "ModelTool": {"plain", "says"},
    "ToolQuestion": {"tool_fingerprint"},
    "ToolStub": {"may_be_repeated"},
    "ProxyQuestion": {"item", "mover", "remote_context", "remote_form", "remote_item", "remote_message"},
}
"""What only the product itself uses, though it has a docstring."""
BASES = {"Occasion", "Asked", "YesOrNo"}
"""Their attributes are those of `Approval`, or internal."""
KEYS = "Its attributes are the keys of [{}](configuration.md#{})."
NOTES = {
    "AgentConfig": KEYS.format("the agent file", "the-file"),
    "ApprovalConfig": KEYS.format("`approval`", "approvalconfig"),
    "LlmNode": KEYS.format("a node", "llmnode"),
}
LINE = 100
"""Characters of a signature in one line."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Method = ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """The generated part: an index, then a section for each group."""
    index = "\n".join(
        f"| {heading} | {', '.join(f'[`{name}`](#{name.lower()})' for name in names)} |"
        for heading, names in GROUPS.items()
    )
    sections = "\n".join(
        f"## {heading}\n\n" + "\n".join(f"### {name}\n\n{described(name)}" for name in names)
        for heading, names in GROUPS.items()
    )
    return f"| for | names |\n|---|---|\n{index}\n\n{sections}"


def described(name: str) -> str:
    value = getattr(stopgo, name)
    if inspect.isclass(value):
        return of_class(value)
    if inspect.isfunction(value):
        return of_function(definitions(inspect.unwrap(value).__module__, name))
    home = f"stopgo.{stopgo._HOME_OF[name]}"
    [alias, text] = next(found for found in documented(tree(home).body) if found[0].target.id == name)
    return f"{code(f'{name} = {ast.unparse(alias.value)}')}\n{prose(text)}\n"


def of_class(cls: type[Any]) -> str:
    """Its docstring, the attributes that have one, and the methods that are for programs."""
    parts = [prose(inspect.getdoc(cls) or ""), ""]
    if note := NOTES.get(cls.__name__):
        parts += [note, ""]
    if rows := list(attributes(cls)):
        parts += ["| attribute | type | meaning |", "|---|---|---|", *rows, ""]
    for base in family(cls):
        if base.__name__ in ACTIVE:
            for name, found in methods(base).items():
                parts += [f"#### {cls.__name__}.{name}", "", of_function(found)]
    return "\n".join(parts)


def attributes(cls: type[Any]) -> Iterator[str]:
    seen: set[str] = set()
    for base in family(cls):
        [node] = definitions(base.__module__, base.__name__)
        assert isinstance(node, ast.ClassDef)
        found = [(field.target.id, field.annotation, text) for field, text in documented(node.body)]
        found += [
            (each.name, each.returns, ast.get_docstring(each) or "")
            for each in node.body
            if isinstance(each, ast.FunctionDef) and is_property(each)
        ]
        found += initialised(node)
        for name, kind, text in found:
            if text and not is_hidden(base, name) and name not in seen:
                assert kind is not None, f"{base.__name__}.{name} has no type"
                seen.add(name)
                shown = shown_type(kind, base.__module__)
                if not shown.startswith("ClassVar"):
                    yield f"| `{name}` | `{shown}` | {' '.join(prose(text).split())} |"


def shown_type(kind: ast.expr, module: str) -> str:
    """A type as it is written, but for names of unions and of sets of words: these are spelled out."""
    meant = getattr(import_module(module), kind.id, None) if isinstance(kind, ast.Name) else None
    if get_origin(meant) is Literal:
        shown = " | ".join(map(repr, get_args(meant)))
    elif isinstance(meant, UnionType):
        shown = " | ".join(each.__name__ for each in get_args(meant))
    else:
        shown = ast.unparse(kind)
    return shown.replace("|", "\\|")


def initialised(node: ast.ClassDef) -> list[tuple[str, ast.expr | None, str]]:
    """The attributes that ``__init__`` sets and describes, with their types or those of its parameters."""
    found: list[tuple[str, ast.expr | None, str]] = []
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            kinds = {arg.arg: arg.annotation for arg in (*each.args.args, *each.args.kwonlyargs)}
            for line, said in pairwise(each.body):
                match line, said:
                    case (
                        ast.Assign(targets=[ast.Attribute(attr=name)]),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found.append((name, kinds.get(name), text))
                    case (
                        ast.AnnAssign(target=ast.Attribute(attr=name), annotation=kind),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found.append((name, kind, text))
    return found


def methods(cls: type[Any]) -> dict[str, list[Definition]]:
    [node] = definitions(cls.__module__, cls.__name__)
    found: dict[str, list[Definition]] = {}
    for each in node.body:
        if isinstance(each, Method) and not is_property(each) and not is_hidden(cls, each.name):
            found.setdefault(each.name, []).append(each)
    for twin, said in pairwise(node.body):
        match twin:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Name(id="_posting"), args=[ast.Name(id=of)]),
            ):
                found[name] = [posting(name, found[of][0], said)]
    return found


def posting(name: str, command: Definition, said: ast.stmt) -> Definition:
    """The twin of a command, which returns a `Turn` at once."""
    assert isinstance(command, ast.AsyncFunctionDef)
    [returned] = ast.parse("Turn").body
    assert isinstance(returned, ast.Expr)
    twin = ast.AsyncFunctionDef(name, command.args, [said], [], returned.value)
    return ast.copy_location(twin, command)


def of_function(overloads: list[Definition]) -> str:
    """Signatures, then the docstring of the last of them, which is the implementation."""
    text = ast.get_docstring(overloads[-1]) or ""
    shown = overloads[:-1] or overloads
    return (
        code("\n".join(signature(each) for each in shown if isinstance(each, Method))) + f"\n{prose(text)}\n"
    )


def signature(node: Method) -> str:
    decorators = [ast.unparse(each) for each in node.decorator_list]
    before = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    if "asynccontextmanager" in decorators:
        before = "async with"
    elif "contextmanager" in decorators:
        before = "with"
    args = [part for part in _arguments(node.args) if part not in ("self", "cls")]
    end = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    line = f"{before} {node.name}({', '.join(args)}){end}"
    if len(line) <= LINE:
        return line
    return f"{before} {node.name}(\n" + "".join(f"    {arg},\n" for arg in args) + f"){end}"


def _arguments(args: ast.arguments) -> Iterator[str]:
    without = [None] * (len(args.args) - len(args.defaults))
    for arg, default in zip(args.args, [*without, *args.defaults], strict=True):
        yield _argument(arg, default)
    if args.kwonlyargs:
        yield "*"
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _argument(arg, default)


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(arg) + (f" = {ast.unparse(default)}" if default is not None else "")


def prose(text: str) -> str:
    """A docstring as Markdown: literals have one backtick, errors are a list."""
    text = re.sub(r"``(.+?)``", r"`\1`", inspect.cleandoc(text))
    before, _, raised = text.partition("\nRaises:\n")
    items = re.split(r"\n {4}(?=\S)", "\n" + raised)[1:]
    return before + "".join(f"\n* raises {' '.join(item.split())}" for item in items)


def code(text: str) -> str:
    return f"```text\n{text}\n```\n"


def documented(body: list[ast.stmt]) -> Iterator[tuple[Any, str]]:
    """Annotated names with the string that follows them."""
    for field, said in pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(said, ast.Expr)
            and isinstance(said.value, ast.Constant)
        ):
            yield field, str(said.value.value)


def is_hidden(cls: type[Any], name: str) -> bool:
    return name.startswith("_") or name in INTERNAL.get(cls.__name__, ())


def is_property(node: Method) -> bool:
    return any(ast.unparse(each) in ("property", "cached_property") for each in node.decorator_list)


def family(cls: type[Any]) -> list[type[Any]]:
    """The class and its bases, as far as they are the product's."""
    return [
        base for base in cls.__mro__ if base.__module__.startswith("stopgo.") and base.__name__ not in BASES
    ]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def definitions(module: str, name: str) -> list[Definition]:
    found = [each for each in tree(module).body if isinstance(each, Definition) and each.name == name]
    assert found, f"{module} has no {name}"
    return found
