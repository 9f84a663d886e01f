# SPDX-License-Identifier: MIT
"""A headless Chromium, driven through its own protocol on a pair of pipes.

    browser = Browser(case)
    browser.use(case)
    browser.open(path)
    browser.evaluate("document.title")
    browser.end()
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from harness import CI, SOON

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find(case):
    """The path of a browser; skips the test where there is none, but fails it in CI."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and CI:
        case.fail("chromium is not installed")
    if path is None:
        case.skipTest("chromium is not installed")
    return path


class Browser:
    def __init__(self, case):
        program = find(case)
        self.case = case
        self.count, self.rest, self.events, self.session = 0, b"", [], None
        self.home = tempfile.mkdtemp(prefix="tdl-browser-")
        read, child_write = os.pipe()
        child_read, write = os.pipe()

        def pipes():
            # It reads commands from 3 and answers on 4.
            a, b = os.dup(child_read), os.dup(child_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [
                *(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.home}"),
                *("--window-size=1000,900", "--lang=en", "about:blank"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home, "XDG_CACHE_HOME": self.home, "TZ": "UTC"},
            preexec_fn=pipes,
            close_fds=False,
            start_new_session=True,
        )
        os.close(child_read)
        os.close(child_write)
        self.read, self.write = read, write

    def use(self, case):
        """A new page, for this test."""
        self.case, self.session, self.events = case, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Accessibility"):
            self.call(f"{domain}.enable")

    def end(self):
        os.close(self.write)  # for the browser that is the end
        try:
            self.process.wait(SOON)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read)
        shutil.rmtree(self.home, ignore_errors=True)

    def message(self):
        while b"\0" not in self.rest:
            ready = select.select([self.read], [], [], SOON)[0]
            self.case.assertTrue(ready, "the browser says nothing")
            got = os.read(self.read, 1 << 20)
            self.case.assertNotEqual(got, b"", "the browser has ended")
            self.rest += got
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.count += 1
        command = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.count:
                self.case.assertNotIn("error", message, method)
                return message["result"]
            self.events.append(message)

    def open(self, path, link=""):
        """Opens a file; returns the seconds until it had run."""
        started = time.monotonic()
        seen = len(self.events)
        self.call("Page.navigate", url=path.as_uri() + link)
        while "Page.loadEventFired" not in [event.get("method") for event in self.events[seen:]]:
            self.events.append(self.message())
        return time.monotonic() - started

    def evaluate(self, expression):
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        self.case.assertNotIn("exceptionDetails", said, expression)
        return said["result"].get("value")

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def press(self, key, code=0):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def mouse(self, kind, x, y, buttons=1):
        self.call(
            "Input.dispatchMouseEvent",
            **{"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1},
        )

    def box(self, selector):
        """x, y, width, height on the screen."""
        return self.evaluate(
            f"(r => [r.x, r.y, r.width, r.height])(document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect())"
        )

    def problems(self):
        """What the page did that it should not have: exceptions, requests, dialogs."""
        wrong = ("Runtime.exceptionThrown", "Page.javascriptDialogOpening")
        return [event for event in self.events if event.get("method") in wrong]
