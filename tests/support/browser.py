"""Chromium without a window: pages at the size of any screen, what is in them, and pictures of them.

It is driven by its own protocol (CDP) through a pipe, so that no driver is needed.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAIT_SECONDS = 60.0
"""Seconds that a page may take to be as a test expects: other programs share the processor."""
_OPTIONS = (
    "--headless", "--no-sandbox", "--no-first-run", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
    "--autoplay-policy=no-user-gesture-required", "--disable-features=WebRtcHideLocalIpsWithMdns",
)  # fmt: skip
_BETWEEN = ("Not attached to an active page", "Cannot find default execution context", "context was destroyed")
"""Parts of the errors of a page whose next document is not there yet."""


class Browser:
    """One page of a Chromium. Use it as a context manager."""

    def __init__(self, chromium: str, folder: Path) -> None:
        self._numbers = itertools.count(1)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        self._read, self._write = os.fdopen(ours_in, "rb", 0), os.fdopen(ours_out, "wb", 0)
        # It reads from 3 and writes to 4. Both may be numbers of our own pipes: they are moved out of the way first.
        shell = f'exec 8<&{theirs_in} 9>&{theirs_out}; exec 3<&8 4>&9 8<&- 9>&-; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, chromium, *_OPTIONS, f"--user-data-dir={folder / 'browser'}", "about:blank"],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._session = b"", ""
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._read.close()
        self._write.close()

    def open(self, address: str, size: tuple[int, int]) -> None:
        """Show a page on a screen of ``size`` (width, height)."""
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        self.call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + WAIT_SECONDS
        while not is_so():
            assert time.monotonic() < end, f"the page does not show {what}"
            time.sleep(0.05)

    def picture(self) -> bytes:
        """The screen as a PNG file."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command, and again while the page is between two documents."""
        end = time.monotonic() + WAIT_SECONDS
        while "error" in (answer := self._ask(method, parameters)):
            is_between = any(each in answer["error"]["message"] for each in _BETWEEN)
            assert is_between and time.monotonic() < end, answer["error"]
            time.sleep(0.05)
        return answer["result"]

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._buffer:
                part = self._read.read(1 << 16)
                assert part, "the browser has ended"
                self._buffer += part
            text, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == number:
                return answer
