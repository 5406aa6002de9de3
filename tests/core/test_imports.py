"""The core and the simulator run where there is neither torch nor numpy, such as in a browser."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
heavy = {name.partition(".")[0] for name in sys.modules} & {"torch", "numpy", "pandas", "pydantic", "typer", "rich", "infer_course"}
assert not heavy, heavy
print(len([name for name in sys.modules if name.startswith(sys.argv[1])]))
"""


@pytest.mark.parametrize("package", ["infer_lab.core", "infer_lab.sim"])
def test_imports_nothing_but_the_standard_library(package: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, package], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 1
