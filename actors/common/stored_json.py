"""The stored form of values: JSON from attrs classes, and back. Pure.

Fields with their default value are left out, unless the class is stored whole. Unknown fields are ignored.
Types are checked, not converted: a string in place of a number is an error. A class with another form
registers it with `converter`, where it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

T = TypeVar("T")


def to_json(value: object) -> Any:
    """The stored form of a value."""
    return converter.unstructure(value)


def from_json(body: Any, kind: type[T]) -> T:
    """The value of a stored form. Raises LookupError, TypeError or ValueError for unexpected JSON."""
    return converter.structure(body, kind)


def readable(body: Any, kind: type[T]) -> T | None:
    """The value of a stored form; None if it is damaged."""
    try:
        return from_json(body, kind)
    except (LookupError, TypeError, ValueError):
        return None


def _new_converter() -> Converter:
    converter = Converter(omit_if_default=True, detailed_validation=False)
    for kind in (str, int, bool):
        converter.register_structure_hook(kind, exactly)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_factory(_is_list, _list_reader)
    converter.register_unstructure_hook_factory(_is_list, _list_writer)
    converter.register_structure_hook_func(_is_literal, _one_of)
    converter.register_structure_hook_func(_is_open, _as_it_is)
    converter.register_structure_hook_factory(_is_object, _object_reader)
    converter.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    converter.register_unstructure_hook_func(lambda kind: _is_open(kind) or _is_open_object(kind), _as_it_is)
    return converter


def write_whole(kind: type[Any]) -> None:
    """Write all fields of an attrs class and of its subclasses, including defaults."""
    converter.register_unstructure_hook_factory(
        lambda each: isinstance(each, type) and issubclass(each, kind),
        lambda each: make_dict_unstructure_fn(each, converter),
    )


def store_whole(kind: type[Any]) -> None:
    """Write all fields of an attrs class, including defaults, and require all of them when reading."""
    write_whole(kind)
    read = make_dict_structure_fn(kind, converter)
    names = tuple(attrs.fields_dict(kind))

    def whole(value: Any, _: object) -> Any:
        _object(value)
        for name in names:
            value[name]
        return read(value, kind)

    converter.register_structure_hook(kind, whole)


def exactly(value: Any, kind: type[Any]) -> Any:
    """Return the value. Raises TypeError if it has another type."""
    if type(value) is not kind:
        raise TypeError(f"{str(value)[:40]!r} is no {kind.__name__}")
    return value


def _number(value: Any, _: object) -> Any:
    return value if type(value) is int else exactly(value, float)


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _one_of(value: Any, kind: Any) -> Any:
    if value not in get_args(kind):
        raise ValueError(f"{str(value)[:40]!r} is none of {get_args(kind)}")
    return value


def _is_open(kind: Any) -> bool:
    return kind is Any


def _is_object(kind: Any) -> bool:
    return get_origin(kind) is Mapping


def _is_open_object(kind: Any) -> bool:
    return bool(kind == Mapping[str, Any])


def _object_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    item = get_args(kind)[1]
    if _is_open(item):
        return lambda value, _: _object(value)
    read = converter.get_structure_hook(item)
    return lambda value, _: {name: read(each, item) for name, each in _object(value).items()}


def _object(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError(f"{str(value)[:40]!r} is no object")
    return value


def _as_it_is(value: Any, _: object = None) -> Any:
    return value


def _is_list(kind: Any) -> bool:
    return get_origin(kind) in (Sequence, tuple)


def _list_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    item = get_args(kind)[0]
    read = converter.get_structure_hook(item)
    return lambda value, _: tuple(read(each, item) for each in exactly(value, list))


def _list_writer(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    write = converter.get_unstructure_hook(get_args(kind)[0])
    return lambda values: [write(each) for each in values]


converter = _new_converter()
