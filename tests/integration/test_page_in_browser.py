"""The page of a run in a real browser, wide and narrow: nothing overflows, nothing is fetched."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from analysis import report
from tests.unit.analysis.synthetic import DOCKER, NATIVE, Effect, Synthetic, cells

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--allow-file-access-from-files", "--virtual-time-budget=8000", "--dump-dom",
           "--enable-logging=stderr", "--v=0")  # fmt: skip
# The browser's window cannot be 360 pixels wide; a frame can.
# The page itself holds no script: this one stands beside it and looks in.
PROBE = """<!DOCTYPE html><body style="margin:0"><iframe id="f" src="index.html"
style="border:0;width:{width}px;height:900px"></iframe><pre id="out"></pre><script>
document.getElementById("f").onload = (event) => {{
  const frame = event.target.contentWindow, page = frame.document, root = page.documentElement;
  const wide = [...page.querySelectorAll("body *")].filter((e) => !e.closest(".scroll, svg"))
    .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1)
    .map((e) => e.outerHTML.slice(0, 80));
  const text = [...page.querySelectorAll("svg text")].filter((e) => {{
    const box = e.getBoundingClientRect(), whole = e.closest("svg").getBoundingClientRect();
    return box.left < whole.left - 2 || box.right > whole.right + 2;
  }}).map((e) => e.textContent);
  document.getElementById("out").textContent = JSON.stringify({{
    width: root.clientWidth, scroll: root.scrollWidth, wide, text,
    panels: page.querySelectorAll("svg").length,
    fetched: frame.performance.getEntriesByType("resource").map((e) => e.name)
      .filter((n) => !n.startsWith("data:")),
  }});
}};
</script></body>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with all that a page can hold."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    effects = {"docker": Effect(slower=1.08, startup=2.0)}
    run = Synthetic(cells(NATIVE, DOCKER, models=("alexnet", "resnet50")), effects,
                    repeats=4, demonstration=True, failed={3: "exited with 1: " + "x" * 300},
                    left_out=[{"what": "bare_metal/docker/none", "why": "y" * 200}])  # fmt: skip
    folder = run.write(tmp_path_factory.mktemp("page") / "run")
    report.make(folder)
    return folder / "report" / "index.html"


def browse(page: Path, width: int, profile: Path) -> tuple[dict[str, Any], str]:
    """What the probe sees in a frame of `width` pixels, and what the browser logs."""
    probe = page.with_name(f"probe-{width}.html")
    probe.write_text(PROBE.format(width=width))
    done = subprocess.run(
        [str(CHROMIUM), *OPTIONS, "--window-size=1400,1000", f"--user-data-dir={profile}",
         probe.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stdout[-2000:]
    return json.loads(html.unescape(found[1])), done.stderr


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 360])
def test_page_fits_and_fetches_nothing(page: Path, width: int, tmp_path: Path) -> None:
    seen, log = browse(page, width, tmp_path / "profile")
    assert seen["width"] >= width - 20
    assert seen["scroll"] <= seen["width"]
    assert seen["wide"] == []
    assert seen["text"] == []
    assert seen["panels"] >= 10
    assert seen["fetched"] == []
    console = [line for line in log.splitlines() if "CONSOLE" in line]
    assert console == []
