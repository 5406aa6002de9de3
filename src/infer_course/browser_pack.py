"""What of our Python travels with the pages: the modules that need nothing but the standard library, in one archive.

Why: the calculators and the playground run the library's own code in the reader's browser, so there is no second implementation to drift.
The archive is unpacked by `web/src/python-worker.ts`. A test imports everything in it with torch, numpy and the rest forbidden.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

# Files and folders below src/. A folder is taken with all its modules.
PACKED = (
    "infer_lab/__init__.py",
    "infer_lab/calculator",
    "infer_lab/config.py",
    "infer_lab/core",
    "infer_lab/errors.py",
    "infer_lab/formulas.py",
    "infer_lab/hardware.py",
    "infer_lab/presets.py",
    "infer_lab/sampling_params.py",
    "infer_lab/sim",
    "infer_lab/units.py",
    "infer_course/__init__.py",
    "infer_course/axes.py",
    "infer_course/browser.py",
    "infer_course/calculators",
    "infer_course/errors.py",
    "infer_course/figure.py",
    "infer_course/plot.py",
    "infer_course/playground",
    "infer_course/playground.py",
)
ARCHIVE = Path("extra/vendor/python/infer.zip")


def packed_files(source: Path) -> Iterator[Path]:
    """Every module that travels, in order; `source` is the folder src. A name that is neither file nor folder (any more) gives nothing."""
    for name in PACKED:
        place = source / name
        yield from sorted(place.rglob("*.py")) if place.is_dir() else [place] if place.is_file() else []


def archive(source: Path) -> bytes:
    """The zip file; equal sources give equal bytes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as into:
        for path in packed_files(source):
            entry = zipfile.ZipInfo(path.relative_to(source).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            into.writestr(entry, path.read_bytes())
    return held.getvalue()


def write(root: Path) -> bool:
    """Brings the archive below `root` up to date; True if it was not."""
    target, now = root / ARCHIVE, archive(root / "src")
    if target.is_file() and target.read_bytes() == now:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(now)
    return True
