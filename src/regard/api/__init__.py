"""What `import regard` offers, one module per task, and the services that only commands need."""

from typing import Any

from regard.config.extensions import installed_extensions, named_object, require_hook
from regard.text.files import format_json, open_atomic
from regard.text.paths import check_outputs, readable

__all__ = [
    "build_options",
    "check_outputs",
    "format_json",
    "installed_extensions",
    "named_object",
    "open_atomic",
    "readable",
    "require_hook",
]


def build_options(target: str, values: dict[str, Any]) -> Any:
    """Return an object of an option class `module:name`.

    Raises:
        UsageError: if a value is wrong; names it.
    """
    from regard.config import from_dict, is_configclass  # imports pydantic, which takes time

    cls = named_object(target)
    return from_dict(cls, values) if is_configclass(cls) else cls(**values)
