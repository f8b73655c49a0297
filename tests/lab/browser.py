"""Headless Chromium, driven through chromedriver's HTTP interface (W3C WebDriver)."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

#: What is missing for tests with a browser, and how to get it; empty where they can run.
MISSING = ", ".join(name for name in ("chromium", "chromedriver") if shutil.which(name) is None)
HOW = f"{MISSING} not found: Debian, Ubuntu: sudo apt install chromium chromium-driver"
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the standard gives to elements
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",  # for root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _driver() -> tuple[subprocess.Popen[str], str]:
    """Start a chromedriver; returns it and its port. If its port is taken in IPv6, try another."""
    output = ""
    for _ in range(5):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert driver.stdout is not None
        for line in driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                return driver, found[1]
            output += line
        driver.wait()
    raise AssertionError(f"chromedriver ended before it listened: {output}")


class Browser:
    """A window with one page.

    with Browser(tmp_path) as browser:
        browser.open("http://127.0.0.1:8888/lab?token=…")
        browser.click("//li[.='Run']")
        browser.until("return document.title === 'Done'")
    """

    def __init__(self, profile: Path, *, size: tuple[int, int] = (1280, 800)) -> None:
        self._driver, port = _driver()
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300)
        arguments = [*_ARGUMENTS, f"--user-data-dir={profile}", "--window-size={},{}".format(*size)]
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments}}
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": options}})
        self._session = f"/session/{session['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._ask("DELETE", self._session)
        finally:
            self._http.close()
            self._driver.terminate()
            self._driver.wait(timeout=30)

    def open(self, address: str) -> None:
        self._ask("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page; returns what it returns, e.g. `return document.title`."""
        body = {"script": script, "args": list(arguments)}
        return self._ask("POST", f"{self._session}/execute/sync", body)

    def until(self, script: str, *arguments: Any, seconds: float = 90) -> Any:
        """Wait until a script returns something true; returns that."""
        deadline = time.monotonic() + seconds
        while not (value := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"never came: {script}\n{self.text()}"
            time.sleep(0.2)
        return value

    def within(self, script: str, *, seconds: float) -> bool:
        """Whether a script returns something true before that time has passed."""
        deadline = time.monotonic() + seconds
        while not (found := bool(self.run(script))) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def click(self, xpath: str, *, seconds: float = 90) -> None:
        """Click an element as a user would, as soon as it is there and nothing covers it."""
        deadline, where = time.monotonic() + seconds, {"using": "xpath", "value": xpath}
        error_text = "no such element"
        while True:
            for found in self._ask("POST", f"{self._session}/elements", where):
                try:
                    self._ask("POST", f"{self._session}/element/{found[_ELEMENT]}/click", {})
                    return
                except AssertionError as error:  # it is hidden, or being redrawn
                    error_text = str(error)
            assert time.monotonic() < deadline, f"{xpath}: {error_text}\n{self.text()}"
            time.sleep(0.2)

    def menu(self, *names: str) -> None:
        """Choose an entry of JupyterLab's menu, e.g. `menu("Run", "Run All Cells")`."""
        self.click(f"//div[contains(@class, 'lm-MenuBar-itemLabel') and .='{names[0]}']")
        for name in names[1:]:
            self.click(f"//li[.//div[.='{name}']]")

    def text(self) -> str:
        """The text of the page."""
        return str(self.run("return document.body.innerText"))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("GET", f"{self._session}/screenshot")))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._http.request(method, path, json=body)
        value = answer.json()["value"]
        assert answer.is_success, f"{value['error']}: {value['message']}"
        return value
