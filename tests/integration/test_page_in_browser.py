"""The page of a run in a real browser: wide, narrow, dark, printed, filtered, shared, asked."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from analysis import report
from tests.unit.analysis.synthetic import DOCKER, NATIVE, Effect, Synthetic, cells

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--allow-file-access-from-files", "--virtual-time-budget=20000",
           "--enable-logging=stderr", "--v=0")  # fmt: skip
DARK = "--blink-settings=preferredColorScheme=0"
EVIL = "<img src=x onerror=\"document.title='owned'\">"
# The browser's window cannot be 360 pixels wide; a frame can. The script of this outer page looks
# into the frame and clicks there, as a person would.
PROBE = """<!DOCTYPE html><body style="margin:0"><iframe id="f" src="index.html{address}"
style="border:0;width:{width}px;height:900px"></iframe><pre id="out"></pre><script>
const settled = () => new Promise((done) => setTimeout(done, 300));
document.getElementById("f").onload = async (event) => {{
  const frame = event.target.contentWindow, page = frame.document, root = page.documentElement;
  const all = (selector) => [...page.querySelectorAll(selector)];
  const seen = (e) => e.getClientRects().length > 0;
  const look = () => ({{
    address: frame.location.hash,
    panels: all("#trials h4").map((e) => e.textContent),
    rows: all("#tables tr[data-c]").filter((e) => !e.hidden).length,
    checked: all("#filters input:checked").map((e) => e.value),
    record: seen(page.getElementById("record")) ? page.getElementById("record").innerText : "",
    link: page.querySelector("#record a[href$='record.json']")?.getAttribute("href") ?? "",
    title: page.title,
  }});
  const out = {{}};
  await settled();
  {script}
  document.getElementById("out").textContent = JSON.stringify(out);
}};
</script></body>"""
FITS = """
  const wide = all("body *").filter((e) => !e.closest(".scroll, svg"))
    .filter((e) => e.getBoundingClientRect().right > root.clientWidth + 1);
  const text = all("svg text").filter((e) => {
    const box = e.getBoundingClientRect(), whole = e.closest("svg").getBoundingClientRect();
    return box.left < whole.left - 2 || box.right > whole.right + 2;
  });
  Object.assign(out, look(), {
    width: root.clientWidth, scroll: root.scrollWidth,
    wide: wide.map((e) => e.outerHTML.slice(0, 80)), text: text.map((e) => e.textContent),
    figures: all("svg[class^=plot]").length,
    fetched: frame.performance.getEntriesByType("resource").map((e) => e.name)
      .filter((n) => !n.startsWith("data:")),
    paper: frame.getComputedStyle(page.body).backgroundColor,
    ink: frame.getComputedStyle(page.body).color,
  });
"""
CLICKS = """
  out.before = look();
  all("#filters input").find((e) => e.value === "resnet50").click();
  await settled();
  out.filtered = look();
  const svg = page.querySelector("#trials svg"), first = svg.querySelector("a");
  const box = first.getBoundingClientRect();
  const at = {bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2};
  svg.dispatchEvent(new frame.PointerEvent("pointermove", {...at, pointerType: "mouse"}));
  await settled();
  out.hover = [...svg.querySelectorAll("[aria-label=tip] text")].map((e) => e.textContent).join();
  first.dispatchEvent(new frame.MouseEvent("click", at));
  await settled();
  out.opened = look();
  page.dispatchEvent(new frame.KeyboardEvent("keydown", {key: "Escape", bubbles: true}));
  await settled();
  out.closed = look();
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with all that a page can hold, and a hostile text in some of it."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium, which is not installed")
    effects = {"docker": Effect(slower=1.08, startup=2.0)}
    models = ("alexnet", "resnet50", EVIL)
    own = cells(NATIVE, DOCKER, models=models) + cells(NATIVE, models=models, labels=("control",))
    run = Synthetic(own, effects, baseline={"runtime": "native", "label": None},
                    demonstration=True, failed={3: EVIL + "x" * 300},
                    left_out=[{"what": "bare_metal/docker/none", "why": "y" * 200}])  # fmt: skip
    folder = run.write(tmp_path_factory.mktemp("page") / "run")
    report.make(folder)
    return folder / "report" / "index.html"


def browse(
    page: Path, profile: Path, script: str, *more: str, width: int = 1280, address: str = ""
) -> dict[str, Any]:
    """What the script finds in a frame of `width` pixels. The browser complains of nothing."""
    probe = page.with_name("probe.html")
    probe.write_text(PROBE.format(width=width, script=script, address=address))
    done = chromium(profile, *more, "--dump-dom", "--window-size=1400,1000", probe.as_uri())
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stdout[-2000:] + done.stderr[-2000:]
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return dict(json.loads(html.unescape(found[1])))


def chromium(profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", *options],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 768, 360])
def test_page_fits_and_fetches_nothing(page: Path, width: int, tmp_path: Path) -> None:
    seen = browse(page, tmp_path, FITS, width=width)
    assert seen["width"] >= width - 20
    assert seen["scroll"] <= seen["width"]
    assert seen["wide"] == []
    assert seen["text"] == []
    assert seen["figures"] == 1 + 5 * 3, "the answer, and five kinds for each case"
    assert seen["fetched"] == []
    assert EVIL in seen["panels"] and "owned" not in seen["title"]


def lightness(colour: str) -> float:
    return sum(map(float, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.browser
def test_page_is_dark_where_that_is_preferred(page: Path, tmp_path: Path) -> None:
    light, dark = browse(page, tmp_path, FITS), browse(page, tmp_path, FITS, DARK)
    assert lightness(light["paper"]) > 240 and lightness(light["ink"]) < 60
    assert lightness(dark["paper"]) < 60 and lightness(dark["ink"]) > 200


@pytest.mark.browser
def test_filter_point_and_address(page: Path, tmp_path: Path) -> None:
    """A filter is in the address, a point opens its trial, and the address alone does both."""
    seen = browse(page, tmp_path, CLICKS)
    before, filtered, opened = seen["before"], seen["filtered"], seen["opened"]
    assert before["panels"] == [EVIL, "alexnet", "resnet50"] and before["record"] == ""
    assert filtered["address"] == "#model=resnet50"
    assert filtered["panels"] == ["resnet50"] and filtered["checked"] == ["resnet50"]
    assert filtered["rows"] * 3 == before["rows"]
    trial = re.search(r"-trial=([^&]+)", opened["address"])
    assert trial and trial[1] in opened["record"] and trial[1] in seen["hover"]
    assert (page.parent / unquote(opened["link"])).is_file()
    assert f"/{trial[1]}/record.json" in opened["link"]
    assert "ansible-playbook site.yml" in opened["record"]
    assert seen["closed"] == filtered
    shared = browse(page, tmp_path, "Object.assign(out, look());", address=opened["address"])
    assert shared == opened


@pytest.mark.browser
def test_page_prints(page: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.pdf"
    chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={target}", page.as_uri())
    pages = len(re.findall(rb"/Type\s*/Page\b", target.read_bytes()))
    assert 3 <= pages <= 20, "the answer, the figures and the open tables, and no folded ones"
