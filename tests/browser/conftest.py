"""JupyterLab in the system's own Chromium, on scratch copies of the notebooks and a scratch workspace."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests.browser.notebook_page import NotebookPage
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, WORKSPACE_VARIABLE

CHROMIUM_VARIABLE = "WORKSHOP_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENSHOTS = CHECKOUT / "workspace" / "browser"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-proxy-server"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing but this machine exists
]
START_S = 180


def find_chromium() -> str | None:
    """The Chromium to drive: `$WORKSHOP_CHROMIUM`, or the first on PATH."""
    return os.environ.get(CHROMIUM_VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="package")  # a later test may need the event loop that Playwright keeps
def copies(tmp_path_factory):
    """Copies of the course's notebooks, to be edited at will."""
    target = tmp_path_factory.mktemp("browser") / "notebooks"
    return shutil.copytree(NOTEBOOKS, target, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))


@pytest.fixture(scope="package")  # a later test may need the event loop that Playwright keeps
def lab_url(copies):
    """`./workshop lab` on the copies; the address it prints."""
    if find_chromium() is None:
        pytest.skip(f"no Chromium on PATH ({', '.join(NAMES)}) and none in ${CHROMIUM_VARIABLE}")
    folder = copies.parent
    dropped = ("WORKSHOP_RECORDS", "WORKSHOP_PROGRESS")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {WORKSPACE_VARIABLE: str(folder / "workspace"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", "-m", "tutorial_lib", "lab", "--no-browser", "--notebooks", str(copies)]
    with (folder / "lab-errors.txt").open("w+") as errors:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=CHECKOUT
        )
        try:
            line = first_line(process, START_S)
            found = re.search(r"http://127\.0\.0\.1:\d+/\S+", line)
            errors.seek(0)
            assert found, f"{line}\n{errors.read()}"
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def first_line(process, limit_s):
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + limit_s
        assert selector.select(timeout=deadline - time.monotonic()), "JupyterLab did not say where it is"
    return process.stdout.readline()


@pytest.fixture(scope="package")  # a later test may need the event loop that Playwright keeps
def browser_context(lab_url, tmp_path_factory):
    """A browser with an empty profile; it ends with the tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=find_chromium(),
            headless=True,
            args=FLAGS,
            viewport={"width": 1360, "height": 1000},
        )
        context.set_default_timeout(120_000)
        refused = []

        def refuse(route):
            refused.append(route.request.url)
            route.abort()

        context.route(re.compile(r"^(?!(https?|wss?)://127\.0\.0\.1[:/]|data:|blob:|about:)"), refuse)
        yield context
        context.close()
    assert not refused, f"the pages asked for {refused[:5]}"


@pytest.fixture(scope="module")
def pages(browser_context, lab_url):
    """Open a notebook by name; the same page again within a module. Its kernel ends with the module."""
    opened = {}

    def open_notebook(name):
        if name not in opened:
            page = browser_context.new_page()
            opened[name] = NotebookPage(page, lab_url, name, screenshots=SCREENSHOTS)
        return opened[name]

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield open_notebook
    for opened_page in opened.values():
        opened_page.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A picture of every page, where a test fails."""
    report = yield
    context = item.funcargs.get("browser_context") if hasattr(item, "funcargs") else None
    if report.failed and context is not None:
        for number, page in enumerate(context.pages):
            page.screenshot(path=SCREENSHOTS / f"failed-{item.name}-{number}.png")
    return report
