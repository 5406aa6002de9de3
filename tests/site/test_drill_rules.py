"""Browser and terminal schedule alike: the rules of `web/src/drill` give what Python wrote into `tests/fixtures/drill_*.json`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from infer_course import web_build

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_the_browser_schedules_plans_counts_judges_and_merges_as_python_does(root, tmp_path):
    web_build.build(root, dev=True)
    node, script = web_build.find_node().node, tmp_path / "rules.mjs"
    bundle = ["node_modules/esbuild/bin/esbuild", str(Path(__file__).with_name("drill_rules.ts")), "--bundle", "--platform=node"]
    subprocess.run([*node, *bundle, "--format=esm", f"--outfile={script}", "--log-level=warning"], cwd=root / "web", check=True)
    done = subprocess.run([*node, str(script), str(FIXTURES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert not said["found"], "\n".join(said["found"][:10])
    assert said["compared"] > 4000
