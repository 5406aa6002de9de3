"""The door through which a page calls Python: text in, text out, and a reader's mistake comes back as a sentence.

`web/src/python-worker.ts` calls `call()` inside Pyodide; nothing here knows about browsers, so it is tested like any other function.
"""

from __future__ import annotations

import importlib
import json

from infer_lab.errors import InferLabError


def call(module: str, function: str, arguments: str) -> str:
    """Calls `module.function` with the JSON `arguments`: an array by position, an object by name, anything else as the only one.

    Returns the JSON `{"value": …}`, or `{"error": message, "name": class of the error}` for a named error of the library.
    Other exceptions are bugs and are raised.
    """
    given = json.loads(arguments)
    positional, by_name = (given, {}) if isinstance(given, list) else ([], given) if isinstance(given, dict) else ([given], {})
    target = getattr(importlib.import_module(module), function)
    try:
        return json.dumps({"value": target(*positional, **by_name)})
    except InferLabError as error:
        return json.dumps({"error": str(error), "name": type(error).__name__})


def ready() -> bool:
    """Answers once everything is loaded."""
    return True
