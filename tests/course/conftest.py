"""A fresh, right course for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from course.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)
