"""Edits of the source that do not depend on its layout: a place, a pattern of the syntax tree, a replacement.

A place is ``module:symbol``, for instance ``actors.log.writer.relay:Relay.load``. The symbol is a
class, a function or a variable, with the names of those around it; empty, it is the whole module. The pattern
must match once:

* If pattern and replacement are expressions, the pattern is compared with each expression. `True` in place of
  an operand removes it from ``and``.
* Otherwise both are statements, and the pattern is compared with each run of statements. An empty replacement
  removes them.
* `Words` replace a part of a text, for instance of SQL, or a pattern of ``case``.

Names, values and structure must agree; line breaks, indentation, quotes, brackets and comments do not matter.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import attrs

Span = tuple[int, int]
"""The first byte, and the byte behind the last one."""


class Misfit(ValueError):
    """An edit that does not fit the source."""


@attrs.frozen
class Edit:
    place: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """The file, from the root of the repository."""
        return self.place.partition(":")[0].replace(".", "/") + ".py"

    def apply(self, tree: Path) -> None:
        """Change the file in this tree. Raises `Misfit`."""
        file = tree / self.path
        if not file.is_file():
            raise Misfit(f"there is no {self.path}")
        text = self.edited(file.read_text())
        ast.parse(text)  # tests would fail for the wrong reason
        file.unlink()  # it may be a link to the original
        file.write_text(text)

    def edited(self, source: str) -> str:
        """The changed source. Raises `Misfit`."""
        found = {
            span: text
            for scope in _scopes(source, self.place.partition(":")[2])
            for span, text in self._replacements(source, scope)
        }
        if len(found) != 1:
            raise Misfit(f"{self.place} has {len(found)} times, not once:\n{self.old}")
        [((first, end), text)] = found.items()
        raw = source.encode()
        return (raw[:first] + text.encode() + raw[end:]).decode()

    def _replacements(self, source: str, scope: ast.AST) -> Iterator[tuple[Span, str]]:
        """Each match in a scope, with the text that takes its place."""
        text = textwrap.dedent(self.new).strip() or "pass"
        old, new = ast.parse(textwrap.dedent(self.old).strip()).body, ast.parse(text).body
        match old, new:
            case [ast.Expr(value=wanted)], [ast.Expr()]:
                for node in ast.walk(scope):
                    if isinstance(node, ast.expr) and _is_same(node, wanted) and _is_found(source, node):
                        yield _span(source, [node]), f"({text})"
            case _:
                for run in _runs(scope, len(old)):
                    if all(map(_is_same, run, old)):
                        yield _span(source, run), textwrap.indent(text, " " * run[0].col_offset).lstrip()


class Words(Edit):
    """Replace a part of the text of a symbol, as it stands there."""

    def _replacements(self, source: str, scope: ast.AST) -> Iterator[tuple[Span, str]]:
        raw, old = source.encode(), self.old.encode()
        first, end = _span(source, [scope]) if isinstance(scope, ast.stmt) else (0, len(raw))
        while (first := raw.find(old, first, end)) >= 0:
            yield (first, first + len(old)), self.new
            first += len(old)


@cache
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _scopes(source: str, symbol: str) -> Sequence[ast.AST]:
    """The definitions of a symbol: several for overloads and setters."""
    scopes: list[ast.AST] = [_parsed(source)]
    for name in filter(None, symbol.split(".")):
        scopes = [node for scope in scopes for node in ast.walk(scope) if name in _names(node)]
    return scopes


def _names(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
        case ast.Assign(targets=targets):
            return tuple(each.id for each in targets if isinstance(each, ast.Name))
        case _:
            return ()


def _runs(scope: ast.AST, length: int) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(scope):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, ())
            if isinstance(body, list):
                yield from (body[n : n + length] for n in range(len(body) - length + 1))


def _is_same(one: ast.AST, other: ast.AST) -> bool:
    return type(one) is type(other) and ast.dump(one) == ast.dump(other)


def _is_found(source: str, node: ast.expr) -> bool:
    """Whether the node is where it says, which expressions in f-strings of Python 3.11 are not."""
    first, end = _span(source, [node])
    try:
        found = ast.parse(f"({source.encode()[first:end].decode()})", mode="eval").body
    except (SyntaxError, UnicodeDecodeError):
        return False
    return ast.dump(found) == ast.dump(node)


def _span(source: str, nodes: Sequence[ast.expr | ast.stmt]) -> Span:
    lines = _line_starts(source)
    first, last = nodes[0], nodes[-1]
    line = min([first.lineno, *(each.lineno for each in getattr(first, "decorator_list", ()))])
    column = first.col_offset
    end = (last.end_lineno or 0, last.end_col_offset or 0)
    return lines[line - 1] + column, lines[end[0] - 1] + end[1]


@cache
def _line_starts(source: str) -> Sequence[int]:
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
