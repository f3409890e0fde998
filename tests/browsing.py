"""A page as people meet it: in a real browser, wide or narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import ConsoleMessage, Page, Request, sync_playwright


@contextmanager
def in_browser(path: Path, width: int) -> Iterator[Page]:
    """No request but for itself, no complaint, no sideways scrolling, nothing for axe."""
    requests: list[str] = []
    complaints: list[str] = []

    def on_request(request: Request) -> None:
        requests.append(request.url)

    def on_console(message: ConsoleMessage) -> None:
        complaints.append(message.text)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("request", on_request)
        page.on("console", on_console)
        page.goto(path.as_uri())
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(page)
        assert violations.violations_count == 0, violations.generate_report()
        browser.close()
    assert requests == [path.as_uri()]
    assert complaints == []
