"""A notebook open in JupyterLab, in the words of somebody who works with it."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

RUN_ALL_MS = 240_000
RUN_CELL_MS = 120_000


class NotebookPage:
    """One browser page with one notebook.

    Args:
        page: a Playwright page.
        lab_url: JupyterLab's address with its token.
        name: "00_start_here".
        screenshots: folder for `shot`.
    """

    def __init__(self, page, lab_url: str, name: str, *, screenshots: Path) -> None:
        parts = urlsplit(lab_url)
        self.base, self.token = f"{parts.scheme}://{parts.netloc}", parts.query.partition("token=")[2]
        self.page, self.name, self.screenshots = page, name, screenshots
        cells = self.ask("GET", f"/api/contents/{name}.ipynb")["content"]["cells"]
        self.ids = [cell["id"] for cell in cells]
        self.sources = {cell["id"]: cell["source"] for cell in cells}  # as they were when it was opened
        self.codes = sum(cell["cell_type"] == "code" for cell in cells)
        # a JupyterLab workspace of its own: no page opens what another has open
        page.goto(f"{self.base}/lab/workspaces/{name}/tree/{name}.ipynb?token={self.token}")
        self.panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        self.cells = self.panel.locator(".jp-Notebook .jp-Cell")
        self.until_count(self.cells, len(self.ids))
        self.wait_idle()

    def ask(self, method: str, path: str):
        """JupyterLab's own interface."""
        request = urllib.request.Request(
            f"{self.base}{path}", method=method, headers={"Authorization": f"token {self.token}"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def wait_idle(self, timeout_ms: int = RUN_CELL_MS) -> None:
        """Until the kernel has nothing to do and no cell waits."""
        # the status bar's word: the notebook's own indicator says idle before there is a kernel at all
        self.page.get_by_role("button", name=re.compile(r"\| Idle$")).wait_for(timeout=timeout_ms)
        self.page.wait_for_function(
            "() => ![...document.querySelectorAll('.jp-InputArea-prompt')].some(p => p.textContent.includes('*'))",
            timeout=timeout_ms,
        )

    def menu(self, *path: str) -> None:
        """Choose an entry of the menu bar."""
        self.page.locator(".lm-MenuBar-itemLabel").get_by_text(path[0], exact=True).click()
        for step in path[1:-1]:
            self.page.locator(".lm-Menu-itemLabel").get_by_text(step, exact=True).hover()
        self.page.locator(".lm-Menu-itemLabel").get_by_text(path[-1], exact=True).click()

    def theme(self, name: str) -> None:
        """Settings → Theme: "Light" or "Dark"; it holds for all pages."""
        self.menu("Settings", "Theme", f"JupyterLab {name}")
        body = self.page.locator(f"body[data-jp-theme-light={str(name == 'Light').lower()}]")
        body.wait_for(state="attached")  # the body of JupyterLab has no height, so it counts as hidden

    def run_all(self, timeout_ms: int = RUN_ALL_MS) -> None:
        """Run → Run All Cells, until the last code cell has run."""
        self.menu("Run", "Run All Cells")
        prompts = self.panel.locator(".jp-CodeCell .jp-InputPrompt").filter(has_text=re.compile(r"\[\d+\]"))
        self.until_count(prompts, self.codes, timeout_ms=timeout_ms)
        self.wait_idle()

    def cell(self, identity: str):
        """A cell by its id."""
        return self.cells.nth(self.ids.index(identity))

    def run(self, identity: str) -> str:
        """Run one cell with Shift+Enter, and return what it prints, error included."""
        cell = self.cell(identity)
        before = self.prompt(identity)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        self.page.wait_for_function(
            "([node, before]) => /\\[\\d+\\]/.test(node.textContent) && node.textContent !== before",
            arg=[cell.locator(".jp-InputArea-prompt").element_handle(), before],
            timeout=RUN_CELL_MS,
        )
        self.wait_idle()
        # not the inner text: JupyterLab has moved on to the next cell, and what it does not draw has none
        return "\n".join(cell.locator(".jp-OutputArea-output").all_text_contents())

    def prompt(self, identity: str) -> str:
        return self.cell(identity).locator(".jp-InputArea-prompt").text_content()

    def type_into(self, identity: str, code: str) -> None:
        """Replace a cell's code, as if pasted."""
        assert code, "an empty cell never gets a number, so that nobody would know whether it has run"
        self.cell(identity).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(code)

    def errors(self) -> list[str]:
        """Texts of all error outputs."""
        found = self.panel.locator(".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']")
        return found.all_text_contents()

    def until(self, locator, text: str | re.Pattern, timeout_ms: int = 120_000) -> None:
        """Wait until something on the page says `text`."""
        from playwright.sync_api import expect

        expect(locator).to_contain_text(text, timeout=timeout_ms)

    def widgets_drawn(self, **counts: int) -> None:
        """Wait until there are so many widgets of each class, and none is still loading."""
        from playwright.sync_api import expect

        for name, count in counts.items():
            self.until_count(self.panel.locator(f".workshop-{name}"), count)
        expect(self.panel).not_to_contain_text("Loading widget", timeout=120_000)

    @staticmethod
    def until_count(locator, count: int, timeout_ms: int = 120_000) -> None:
        """Wait until there are so many of something."""
        from playwright.sync_api import expect

        expect(locator).to_have_count(count, timeout=timeout_ms)

    def shot(self, name: str, locator=None) -> Path:
        """Keep a picture of the page, or of a part of it."""
        path = self.screenshots / f"{name}.png"
        if locator is None:
            self.page.screenshot(path=path)
        else:
            locator.scroll_into_view_if_needed()
            locator.screenshot(path=path)
        return path

    def close(self) -> None:
        """End the kernel, then the page."""
        for session in self.ask("GET", "/api/sessions"):
            if session["path"] == f"{self.name}.ipynb":
                self.ask("DELETE", f"/api/sessions/{session['id']}")
        self.page.close()
