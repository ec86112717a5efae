"""Runtime checks of tensor shapes, done once for each combination of argument types and shapes of a function.

The import hook of jaxtyping decorates all functions and dataclasses of the checked packages. The check of a
call takes longer than most of the functions run. Its outcome depends only on the types of the arguments and
of the result, and on the data types and shapes of tensors. `install` therefore replaces the decorator by one
that remembers the combinations that have passed, and then calls the function directly. Functions whose
annotations contain no shape are not checked: their types are those of pyright.
"""

import functools
import inspect
import re
import threading
import types
from collections.abc import Callable, Hashable
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import jaxtyping
import numpy as np
import torch

MAX_CHARACTERS = 24
"""Maximum length of the strings that are distinguished, because they may be values of a `Literal`."""
MAX_ITEMS = 8
"""Number of items of a list, tuple or dictionary that are distinguished. beartype checks one at random."""


def install(packages: list[str]) -> None:
    """Check the shapes in all modules of some packages that are imported from now on."""
    jaxtyping.install_import_hook(packages, "beartype.beartype")
    # The hook's decorator is `@jaxtyping.jaxtyped(typechecker=...)`, the innermost one of a function and the
    # outermost one of a class.
    jaxtyping.jaxtyped = functools.partial(_jaxtyped, jaxtyping.jaxtyped)


def _jaxtyped(original: Callable[..., Any], *, typechecker: Any) -> Callable[[Any], Any]:
    """Return a decorator of functions and classes that takes the place of `original`."""

    def decorate(part: Any) -> Any:
        if not _has_shape(part):
            return part
        if not inspect.isclass(part):
            return _remember(part, original(typechecker=typechecker), _passed_calls(part))
        if "__dataclass_fields__" in vars(part):
            part.__init__ = _remember(part.__init__, original(typechecker=typechecker), {})
        return part

    return decorate


_SHAPE = re.compile(r"\b(?:jaxtyping|Bool|Complex|Float|Int|Num|Real|Shaped|UInt)\b[.\[]")


def _has_shape(part: Any) -> bool:
    """Return whether an annotation of a function, or of a field of a class, contains a shape."""
    # The text of an annotation shows the shapes in unions and containers, too.
    return any(_SHAPE.search(str(one)) for one in getattr(part, "__annotations__", {}).values())


_Passed = dict[Hashable, set[Hashable]]
"""The results that have passed, for each combination of arguments that has passed."""

_PASSED: dict[int, tuple[types.CodeType, _Passed]] = {}


def _passed_calls(function: Any) -> _Passed:
    """Return the calls of a function that have passed, which all closures of one `def` share."""
    # Code objects of different functions can be equal, so the key is the identity. It is not used again while
    # the dictionary holds the code.
    code = function.__code__
    return _PASSED.setdefault(id(code), (code, {}))[1]


def _remember(function: Any, check: Callable[[Any], Any], passed: _Passed) -> Any:
    """Return a function that checks only those calls of `function` that differ from the passed ones."""
    results, lock = [], threading.Lock()

    def last_result(*_: Any, **__: Any) -> Any:
        return results.pop()

    @functools.cache
    def checked() -> Any:
        return check(function)

    @functools.cache
    def checked_result() -> Any:
        """Return a function that checks its arguments and the last result as `function` does."""
        code, closure = last_result.__code__, last_result.__closure__
        copy = types.FunctionType(code, function.__globals__, function.__name__, None, closure)
        return check(functools.wraps(function)(copy))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = tuple([DESCRIBE[type(value)](value) for value in args])
        if kwargs:
            given += *kwargs, *(DESCRIBE[type(value)](value) for value in kwargs.values())
        if (known := passed.get(given)) is None:
            result = checked()(*args, **kwargs)
            passed.setdefault(given, set()).add(DESCRIBE[type(result)](result))
            return result
        result = function(*args, **kwargs)
        if (described := DESCRIBE[type(result)](result)) not in known:
            with lock:
                results.append(result)
                checked_result()(*args, **kwargs)
            known.add(described)
        return result

    return call


class _Describers(dict[type, Callable[[Any], Hashable]]):
    """For each type, a function that returns the properties of a value on which the checks depend."""

    def __missing__(self, kind: type) -> Callable[[Any], Hashable]:
        if issubclass(kind, torch.Tensor | np.ndarray):
            found = attrgetter("__class__", "dtype", "shape")
        elif issubclass(kind, tuple | list):
            found = _describe_sequence
        elif issubclass(kind, dict):
            found = _describe_dictionary
        elif issubclass(kind, str):
            found = _describe_string
        elif issubclass(kind, bool | type):
            found = _describe_exactly
        else:
            found = type  # the fields of a dataclass were checked when it was made
        return self.setdefault(kind, found)


DESCRIBE = _Describers()


def _describe_exactly(value: Any) -> Hashable:
    return type(value), value


def _describe_string(value: str) -> Hashable:
    return value if len(value) <= MAX_CHARACTERS else str


def _describe_sequence(value: Any) -> Hashable:
    length = len(value) if isinstance(value, tuple) else None
    return type(value), length, *map(_describe_item, value[:MAX_ITEMS])


def _describe_dictionary(value: dict[Any, Any]) -> Hashable:
    return type(value), *map(_describe_item, chain.from_iterable(islice(value.items(), MAX_ITEMS)))


def _describe_item(value: Any) -> Hashable:
    """Return the properties of an item; strings are not distinguished, because there are too many."""
    kind = type(value)
    return str if kind is str else DESCRIBE[kind](value)
