"""What a text from the environment stands for, and which numbers a key takes. Pure."""

from __future__ import annotations

import math
import re

from stopgo.config.shape import Flag, Number, Shape

_WHOLE = re.compile(r"[-+]?[0-9]{1,18}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_FLAGS = {"true": True, "false": False}


def typed(text: str, shape: Shape) -> object:
    if isinstance(shape, Flag):
        return _FLAGS.get(text, text)
    if isinstance(shape, Number):
        if _WHOLE.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            return float(text)
    return text


def in_range(number: float, shape: Number) -> bool:
    return (
        not (isinstance(number, float) and math.isnan(number))
        and (shape.minimum is None or number >= shape.minimum)
        and (shape.above is None or number > shape.above)
        and (shape.maximum is None or number <= shape.maximum)
    )
