"""The trace a message belongs to: opaque here, carried from sender to handler."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import TypeAlias

Trace: TypeAlias = Mapping[str, str]
"""Whatever identifies a trace. Never changed once it is current: set a new one."""

NO_TRACE: Trace = MappingProxyType({})

current: ContextVar[Trace] = ContextVar("trace", default=NO_TRACE)
"""While a handler runs, the trace of whoever sent its message; background tasks inherit it."""
