"""Plain JSON values, for what must survive being stored."""

import json
from typing import Any


def plain_json(value: Any, name: str) -> Any:
    """A copy of the value as JSON holds it, or raise what is wrong with it."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name} must be JSON ({error})") from None
