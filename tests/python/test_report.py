"""report.html in a real browser: it renders without a word on the console, and search, click, fold and keys work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import autopar
import pytest
from autopar.__main__ import main
from autopar.plan import MeshResult, Plan
from autopar.read_plan import parse_plan
from autopar.report import report_html
from autopar.report.charts import progress_chart
from convert_capture import convert, read_capture
from rule_check import build_folder, needed_build_folder

sync_api = pytest.importorskip("playwright.sync_api")
pytest.importorskip("jinja2")
ROOT = Path(__file__).resolve().parents[2]
LLAMA_8B = ROOT.parent / "shared" / "graphs" / "llama8b.json.gz"
SIZE_LIMIT = 10_000_000
SECONDS_LIMIT = 2


def search(folder: Path, model: Path, mesh: str) -> Path:
    built = needed_build_folder()
    path = folder / f"{model.name.split('.')[0]}.plan.json"
    command = [str(built / "autopar-search"), str(model), "--mesh", mesh, "--cluster", "h100", "-q", "-o", str(path)]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def plan_path(folder: Path) -> Path:
    return search(folder, ROOT / "tests" / "models" / "mlp.json", "dp=4,tp=2")


@pytest.fixture(scope="module")
def report(folder: Path, plan_path: Path) -> Path:
    path = folder / "report.html"
    assert main(["report", str(plan_path), "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as playwright:
        # Containers run as root, for whom Chromium has no sandbox.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


class Page:
    """An open report, with all that it says on the console and asks of the network."""

    def __init__(self, browser: Any, path: Path, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": 1366, "height": 768}, color_scheme=scheme)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("#tree .row")

    def _dismiss(self, dialog: Any) -> None:
        self.said.append(dialog.message)
        dialog.dismiss()

    def rows(self) -> list[str]:
        # Not the inner texts: rows that are out of sight are not drawn (content-visibility), and then have none.
        return [text.strip() for text in self.page.locator("#tree .row .name").all_text_contents()]

    def details(self) -> str:
        return str(self.page.locator("#details").inner_text())

    def focused(self) -> str:
        return str(
            self.page.evaluate("document.activeElement.querySelector('.name')?.title ?? document.activeElement.id")
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)


@pytest.fixture
def opened(browser: Any, report: Path) -> Iterator[Page]:
    page = Page(browser, report)
    yield page
    assert page.said == []
    page.page.close()


def luminance(page: Page, selector: str) -> float:
    """Of the background, 0 to 255."""
    colour = page.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_renders(browser: Any, report: Path, scheme: str) -> None:
    page = Page(browser, report, scheme)
    for part in ("summary", "modules", "memory", "communication", "search"):
        assert page.page.locator(f"#{part}").bounding_box()["height"] > 60
    assert (luminance(page, "body") > 128) == (scheme == "light")
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 1366
    # Links inside the page aside, it asks for nothing but itself.
    assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []
    assert page.said == []
    page.page.locator("#theme").click()
    assert (luminance(page, "body") > 128) == (scheme == "dark")
    page.page.close()


def test_says_what_the_plan_says(opened: Page, plan_path: Path) -> None:
    plan = json.loads(plan_path.read_text())
    text = opened.page.locator("#summary").inner_text()
    assert f"{plan['result']['cost_ps'] / 1e6:.1f} µs" in text
    rows = opened.page.locator("#communication tbody tr").all_inner_texts()
    cells = [row.split("\t") for row in rows]
    assert sum(int(count) for _, kind, _, count, *_ in cells if kind != "zero") == sum(
        entry["count"] for entry in plan["totals"]["communication"]
    )


def test_placements_are_the_plans(opened: Page, plan_path: Path) -> None:
    plan = json.loads(plan_path.read_text())
    opened.page.locator("#expand").click()
    for name, placed in plan["parameters"].items():
        row = opened.page.locator(f"#tree .row:has(.name[title='{name}'])")
        if row.count():  # else one of a folded layer
            assert row.locator(".chip").all_text_contents() == placed
            assert row.locator(".chip").nth(1).get_attribute("title") == f"tp: {placed[1]}"


def test_search(opened: Page) -> None:
    opened.press("/")
    assert opened.focused() == "query"
    opened.page.keyboard.type("MM.default")
    assert opened.page.locator("#found").inner_text().endswith(" found")
    opened.press("Enter")
    assert opened.page.locator("#found").inner_text().startswith("1 of ")
    assert "aten.mm.default" in opened.details() or "aten.addmm.default" in opened.details()
    first = opened.details()
    opened.press("Enter")
    assert opened.details() != first
    opened.page.keyboard.type("no such thing")
    assert opened.page.locator("#found").inner_text() == "nothing found"
    opened.press("Escape")
    assert opened.page.locator("#found").inner_text() == ""


def test_fold_by_click_and_keys(opened: Page) -> None:
    before = opened.rows()
    opened.page.locator("#collapse").click()
    assert len(opened.rows()) < len(before)
    opened.page.locator("#expand").click()
    unfolded = opened.rows()
    assert len(unfolded) >= len(before)
    opened.page.locator("#tree .row .twist").nth(1).click()
    assert len(opened.rows()) < len(unfolded)
    assert opened.page.locator("#tree .row").nth(1).get_attribute("aria-expanded") == "false"
    opened.press("ArrowRight")
    assert opened.rows() == unfolded
    opened.press("ArrowRight")
    inside = opened.focused()
    opened.press("ArrowLeft")
    assert inside.startswith(opened.focused())
    opened.press("End", "Home", "ArrowDown", "ArrowUp", "ArrowLeft")
    assert len(opened.rows()) == 1


def test_zoom_into_a_module(opened: Page) -> None:
    whole = opened.rows()
    opened.page.locator("#tree .row").nth(1).click()
    opened.press("z")
    assert opened.page.locator("#zoomed").is_visible()
    assert len(opened.rows()) < len(whole)
    opened.press("Backspace")
    assert opened.rows() == whole
    assert opened.page.locator("#zoomed").is_hidden()


def test_click_shows_details_and_links_lead_on(opened: Page) -> None:
    opened.page.locator("#expand").click()
    opened.page.locator("#tree .row:has(.tag)").first.click()
    link = opened.page.locator("#details .link").first
    target = link.inner_text()
    link.click()
    assert opened.details().startswith(target)
    assert opened.focused() == target


def test_views_are_shown_on_demand(opened: Page) -> None:
    opened.page.locator("#expand").click()
    before = len(opened.rows())
    opened.page.locator("#free").check()
    assert len(opened.rows()) > before
    opened.page.locator("#phase").select_option("forward")
    rows = opened.rows()
    assert any(row.startswith("f/") for row in rows)
    assert not any(row.startswith("b/") for row in rows)


def test_timeline(opened: Page) -> None:
    opened.page.locator("#lanes").focus()
    streams = opened.page.locator("svg.streams")
    whole = streams.get_attribute("viewBox")

    def settled() -> str:
        opened.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return str(streams.get_attribute("viewBox"))

    opened.press("+", "+", "ArrowRight")
    left, _, width, _ = map(float, settled().split())
    assert left > 0
    assert width == pytest.approx(250_000)
    assert (
        streams.get_attribute("viewBox").split()[:3]
        == opened.page.locator("svg.memory").get_attribute("viewBox").split()[:3]
    )
    opened.press("0")
    assert settled() == whole
    opened.press("n")
    assert " held at " in opened.page.locator("#pinned").inner_text()
    first = opened.page.locator("#pinned b").inner_text()
    opened.press("n", "p")
    assert opened.page.locator("#pinned b").inner_text() == first
    box = opened.page.locator(".lane-box").bounding_box()
    opened.page.mouse.click(box["x"] + box["width"] / 3, box["y"] + 20)
    opened.page.locator("#pinned button").click()
    assert opened.page.locator("#details h3").first.inner_text() == opened.focused()
    assert opened.page.locator("#zoom-selection").is_enabled()


def test_names_are_text(browser: Any, folder: Path, plan_path: Path) -> None:
    """A module may be called anything; nothing of it may become a part of the page."""
    name = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    text = plan_path.read_text()
    module = next(iter(json.loads(text)["parameters"])).split(".")[0]
    hostile = re.sub(rf'"{module}(?=[./])', lambda _: f'"{name}', text).replace(
        '"name": "mlp"', f'"name": "</title>{name}"'
    )
    path = folder / "hostile.html"
    path.write_text(report_html(parse_plan(hostile, "</script><b>.json")), encoding="utf-8")
    page = Page(browser, path)
    page.page.locator("#expand").click()
    assert name in page.rows()[0]
    assert any(row.lstrip("▾▸").strip() == name for row in page.rows())
    page.page.locator("#tree .row").nth(1).click()
    assert page.said == []
    assert page.page.locator("img").count() == 0
    page.page.close()


def test_meshes_and_progress(browser: Any, folder: Path, plan_path: Path) -> None:
    plan = autopar.load_plan(plan_path)
    meshes = (
        MeshResult(shape=(4, 2), dim_names=("dp", "tp"), cost_ps=plan.cost_ps, bound_ps=plan.bound_ps, left_out=None),
        MeshResult(shape=(2, 4), dim_names=("dp", "tp"), cost_ps=None, bound_ps=None, left_out=None),
        MeshResult(shape=(8,), dim_names=("dp",), cost_ps=None, bound_ps=None, left_out="nodes do not fit"),
    )
    progress = ((0.1, None, 5), (0.2, 20, 10), (0.5, 15, 14))
    fields = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
    path = folder / "meshes.html"
    path.write_text(report_html(Plan(**(fields | {"meshes": meshes, "progress": progress}))), encoding="utf-8")
    page = Page(browser, path)
    rows = page.page.locator("#meshes tbody tr").all_inner_texts()
    assert len(rows) == 3
    assert "none" in rows[1]
    assert "nodes do not fit" in rows[2]
    assert page.page.locator("#meshes tr.chosen").count() == 1
    assert page.page.locator("#search path.best").bounding_box()["width"] > 100
    assert page.said == []
    page.page.close()
    assert progress_chart(plan) is None or plan.progress


def test_ranks(browser: Any, folder: Path, plan_path: Path) -> None:
    head = "rank,read_s,price_s,presolve_s,bound_s,search_s,wait_s,total_s,tasks,branch_nodes,messages,bytes"
    (folder / "times.csv").write_text(f"{head}\n0,0,0,1,2,3,0,6,1,0,0,0\n1,0,0,0,0,0,6,6,0,0,0,0\n")
    path = folder / "ranks.html"
    assert main(["report", str(plan_path), "-o", str(path), "--log-dir", str(folder)]) == 0
    page = Page(browser, path)
    assert page.page.locator("svg.ranks text").all_text_contents() == ["rank 0, 1 task", "rank 1, 0 tasks"]
    widths = [box.bounding_box()["width"] for box in page.page.locator("svg.ranks rect").all()]
    assert widths[1] == pytest.approx(2 * widths[0], rel=0.02)
    assert widths[3] == pytest.approx(6 * widths[0], rel=0.02)
    assert page.said == []
    page.page.close()


def test_other_plans_are_told(capsys: pytest.CaptureFixture[str], folder: Path, plan_path: Path) -> None:
    assert main(["report", str(folder / "none.json")]) == 1
    assert "none.json: cannot be read" in capsys.readouterr().err
    assert main(["report", str(plan_path), "--log-dir", str(folder / "none")]) == 1
    assert "times.csv: cannot be read" in capsys.readouterr().err
    assert main(["report", str(plan_path), "-o", str(folder / "no" / "report.html")]) == 1
    assert "report.html: cannot be written" in capsys.readouterr().err


def test_without_programs_there_is_a_page(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, browser: Any, folder: Path, plan_path: Path
) -> None:
    monkeypatch.setenv("AUTOPAR_BUILD_DIR", str(folder))
    path = folder / "plain.html"
    assert main(["report", str(plan_path), "-o", str(path)]) == 0
    assert "no timeline" in capsys.readouterr().err
    page = Page(browser, path)
    assert page.page.locator("#timeline").count() == 0
    assert page.said == []
    page.page.close()


def test_what_else_was_possible(browser: Any, folder: Path, plan_path: Path) -> None:
    built = build_folder()
    if built is None or not (built / "autopar-plan").exists():
        pytest.skip("autopar-plan is not built")
    path = folder / "explained.html"
    model = ROOT / "tests" / "models" / "mlp.json"
    assert main(["report", str(plan_path), "--model", str(model), "-o", str(path)]) == 0
    page = Page(browser, path)
    page.page.fill("#query", "weight")
    page.press("Enter")
    assert "for the best plan with it" in page.details()
    page.page.close()


@pytest.mark.slow
@pytest.mark.skipif(not LLAMA_8B.exists(), reason="no captures beside the repository")
def test_large_plans_open_at_once(browser: Any, folder: Path) -> None:
    model = folder / "llama8b.json"
    model.write_text(json.dumps(convert(read_capture(LLAMA_8B))))
    plan = search(folder, model, "8,4")
    path = folder / "llama8b.html"
    assert main(["report", str(plan), "-o", str(path)]) == 0
    assert path.stat().st_size < SIZE_LIMIT
    page = Page(browser, path)
    took = page.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd") / 1000
    assert 0 < took < SECONDS_LIMIT
    page.page.locator("#expand").click()
    assert page.page.evaluate("performance.now()") / 1000 < 2 * SECONDS_LIMIT
    assert page.said == []
    page.page.close()
