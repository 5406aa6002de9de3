"""Serves the built site on this machine: the right types, our own page for what is missing, a free port, a quiet end."""

from __future__ import annotations

import errno
import functools
import http.server
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

from infer_course.errors import CourseError

PORTS_TRIED = 20


class NothingToServeError(CourseError):
    """The site has not been built."""


class NoPortError(CourseError):
    """No port could be had for serving."""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Static files with the right types, the site's own page where there is none, and no line per request."""

    extensions_map: ClassVar[dict[str, str]] = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".js": "text/javascript",
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
        ".json": "application/json",
        ".svg": "image/svg+xml",
        ".woff": "font/woff",
        ".woff2": "font/woff2",
        ".whl": "application/zip",
    }
    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def send_head(self) -> Any:
        """Before a file is looked for, whoever answers in its place may do so, and whoever makes files on demand may make it."""
        instead = getattr(self.server, "answer", None)
        found = instead(unquote(urlsplit(self.path).path)) if instead is not None else None
        if found is not None:
            self._answer(200, found[1], found[0])
            return None
        make = getattr(self.server, "make_missing", None)
        if make is not None:
            try:
                make(unquote(urlsplit(self.path).path))
            except CourseError as error:
                self._answer(503, str(error).encode(), "text/plain; charset=utf-8")
                return None
        return super().send_head()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory) / "404.html"
        if code != 404 or not page.is_file():
            super().send_error(code, message, explain)
            return
        self._answer(404, page.read_bytes(), "text/html; charset=utf-8")

    def _answer(self, code: int, body: bytes, kind: str) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Server(http.server.ThreadingHTTPServer):
    """One thread a request; a reader who leaves in the middle of an answer is no error."""

    answer: Callable[[str], tuple[str, bytes] | None] | None = None
    make_missing: Callable[[str], None] | None = None
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def open_server(html: Path, port: int, host: str = "127.0.0.1") -> Server:
    """A server on `port`, or on the next free one. Port 0 takes any."""
    if not (html / "index.html").is_file():
        raise NothingToServeError(f"there is no built site in {html}. Run `make build` (or `python -m infer_course.site build`) first.")
    handler = functools.partial(Handler, directory=str(html))
    for candidate in range(port, port + PORTS_TRIED) if port else [0]:
        try:
            return Server((host, candidate), handler)
        except OSError as error:
            if error.errno == errno.EACCES:
                raise NoPortError(f"port {candidate} may not be used by this user. Say e.g. PORT=8000.") from None
            if error.errno != errno.EADDRINUSE:
                raise NoPortError(f"{host}:{candidate} cannot be used: {error.strerror}") from None
    raise NoPortError(f"the ports {port} to {port + PORTS_TRIED - 1} are all taken. Say another, e.g. PORT={port + 1000}.")


def serve(html: Path, port: int, host: str = "127.0.0.1", make_missing: Callable[[str], None] | None = None) -> None:
    """Serves until Ctrl-C. make_missing is told every path that is asked for, and may make the file; a CourseError is shown as it is."""
    with open_server(html, port, host) as server:
        server.make_missing = make_missing
        at = server.server_address[1]
        if port and at != port:
            print(f"Port {port} is taken, so it is {at}.")
        print(f"Inference Lab is at http://localhost:{at}/  (Ctrl-C stops it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("\nStopped. `make site` starts it again.")
