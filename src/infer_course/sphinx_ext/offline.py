"""Drill and mock interview without the server: writes a service worker for each page into the built site, with the files to keep.

Its name for the kept files is a digest of their content, so a new build installs a new worker, which fetches everything anew and drops the
old. While the server answers, its answer is always the one that is used.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

from sphinx.application import Sphinx

PAGES = ("book/drill", "book/mock")
WORKER = Path(__file__).with_name("offline_worker.js")
_ASSET = re.compile(r'<(?:script|link)\b[^>]*?\b(?:src|href)="([^"]+)"')
_FETCHED = (".mjs", ".js", ".css", ".svg")


def write(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`, after the data files of the cards."""
    out = Path(app.outdir)
    if error is not None or app.builder.format != "html":
        return
    for page in PAGES:
        if (out / f"{page}.html").is_file():
            _write_worker(out, page)


def _write_worker(out: Path, page: str) -> None:
    files = sorted({f"{page}.html", *_assets(page, (out / f"{page}.html").read_text(encoding="utf-8")), *_data(out)})
    digest = hashlib.sha256()
    for name in files:
        digest.update(name.encode())
        digest.update((out / name).read_bytes())
    folder, page_name = posixpath.split(page)
    prefix = f"il-{page_name}-"
    kept = {"prefix": prefix, "name": f"{prefix}{digest.hexdigest()[:16]}", "files": [posixpath.relpath(name, folder) for name in files]}
    worker = f"const KEPT = {json.dumps(kept)};\n{WORKER.read_text(encoding='utf-8')}"
    (out / f"{page}-offline.js").write_text(worker, encoding="utf-8")


def _assets(page: str, html: str) -> set[str]:
    """Scripts, styles and icons of the page, from the root of the site."""
    found = {urlsplit(address) for address in _ASSET.findall(html)}
    return {
        posixpath.normpath(posixpath.join(posixpath.dirname(page), parts.path))
        for parts in found
        if not parts.netloc and parts.path.endswith(_FETCHED)
    }


def _data(out: Path) -> set[str]:
    """The cards, and what the scripts share."""
    static = out / "_static"
    return {
        path.relative_to(out).as_posix() for path in (static / "cards.json", *static.glob("cards/*.json"), *static.glob("gen/chunk-*.mjs"))
    }
