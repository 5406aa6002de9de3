"""Page and terminal hold the same interview: the rules of `web/src/mock` give what Python wrote into `tests/fixtures/mock_cases.json`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from infer_course import web_build

CASES = Path(__file__).parents[1] / "fixtures" / "mock_cases.json"


def test_the_page_chooses_asks_scores_and_advises_as_the_terminal_does(root: Path, tmp_path: Path) -> None:
    web_build.build(root, dev=True)
    node, script = web_build.find_node().node, tmp_path / "rules.mjs"
    bundle = ["node_modules/esbuild/bin/esbuild", str(Path(__file__).with_name("mock_rules.ts")), "--bundle", "--platform=node"]
    subprocess.run([*node, *bundle, "--format=esm", f"--outfile={script}", "--log-level=warning"], cwd=root / "web", check=True)
    done = subprocess.run([*node, str(script), str(CASES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert not said["found"], "\n".join(said["found"][:10])
    assert said["compared"] > 450
