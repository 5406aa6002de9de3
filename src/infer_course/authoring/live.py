"""The site while one writes: it is built again when a file changes, and the page in the browser follows by itself.

A mistake in the text is shown over the page, in the words of the check, and goes when it is mended. The files are looked at twice a second,
by size and time, which works on every system and every editor.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

from infer_course import site
from infer_course.errors import CourseError
from infer_course.web_server import Server, open_server

STATE = "/_live"
SCRIPT = """<script>
(() => {
  let seen = null;
  const box = document.createElement("pre");
  box.setAttribute("role", "alert");
  box.style.cssText = "position:fixed;inset:auto 0 0 0;max-height:60vh;overflow:auto;margin:0;padding:1rem;z-index:999;" +
    "background:#1b1d20;color:#ffb27a;white-space:pre-wrap";
  const look = async () => {
    try {
      const now = await (await fetch("/_live", { cache: "no-store" })).json();
      if (seen !== null && now.build !== seen) location.reload();
      seen = now.build;
      box.textContent = now.error;
      if (now.error) document.body.append(box); else box.remove();
    } catch { box.textContent = "The preview has stopped."; document.body.append(box); }
    setTimeout(look, 500);
  };
  look();
})();
</script>"""


class Preview:
    """What was built last, and what is wrong now. `look` builds if anything changed since."""

    def __init__(self, root: Path, output: Path, build: Callable[[Path, Path], bool] = site.build) -> None:
        self.root, self.output, self._build = root, output, build
        self.builds, self.error = 0, ""
        self._seen: object = None

    def look(self) -> bool:
        """Builds when a file changed; True if it did. A mistake is kept in `error`, and the last good pages stay."""
        now = site.fingerprint(self.root)
        if now == self._seen:
            return False
        self._seen = now
        try:
            self._build(self.root, self.output)
            self.builds, self.error = self.builds + 1, ""
        except CourseError as error:
            self.error = str(error)
        return True

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """For the server: the state, or a page with the script that follows it; None for everything else."""
        if path == STATE:
            return "application/json", json.dumps({"build": self.builds, "error": self.error}).encode()
        html = (self.output / "html").resolve()
        file = (html / path.lstrip("/")).resolve()
        file = file / "index.html" if file.is_dir() else file
        if file.suffix != ".html" or not file.is_file() or not file.is_relative_to(html):
            return None
        return "text/html; charset=utf-8", file.read_bytes().replace(b"</body>", SCRIPT.encode() + b"</body>")

    def run(self, stop: threading.Event, every: float = 0.5, say: Callable[[str], None] = print) -> None:
        """Looks again and again until `stop`; says what happened."""
        while not stop.wait(every):
            if self.look():
                say(self.error or f"Built again ({self.builds}).")


def serve(root: Path, port: int) -> None:
    """Builds, then serves and follows until Ctrl-C. CourseError if the first build fails and there is no earlier one to show."""
    preview, stop = Preview(root, root / "_build"), threading.Event()
    print("Building the site …", flush=True)
    preview.look()
    if preview.error and not (preview.output / "html" / "index.html").is_file():
        raise CourseError(preview.error)
    print(preview.error or "Built.", flush=True)
    with open_server(root / "_build" / "html", port) as server:
        server.answer = preview.answer
        threading.Thread(target=preview.run, args=(stop,), daemon=True).start()
        print(f"Live preview at http://localhost:{server.server_address[1]}/  (Ctrl-C stops it)", flush=True)
        _until_interrupted(server)
        stop.set()


def _until_interrupted(server: Server) -> None:
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("\nStopped.")
