# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, spoken to by its DevTools protocol over a pair of pipes: texts of JSON, each with a NUL behind it.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:9710/")
        page.wait("document.title !== ''", "it has no title")
        page.press("Tab")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from libcluster import WAIT_S, Failure, check, skip

KEYS = {"Tab": 9, "Enter": 13, " ": 32}


class Browser:
    def __init__(self):
        program = shutil.which("chromium")
        if program is None:
            skip("there is no chromium")
        self.folder = tempfile.mkdtemp(prefix="cleave-browser-")
        read_there, self.to = os.pipe()
        self.answers, write_there = os.pipe()
        # The descriptors that it wants are 3 and 4.
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$0" "$@" 3<&{read_there} 4>&{write_there}', program, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
             "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", "about:blank"],
            pass_fds=(read_there, write_there), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.folder})
        os.close(read_there)
        os.close(write_there)
        self.rest, self.number, self.results, self.events = b"", 0, {}, []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)
        return False

    def send(self, method, session=None, **words):
        """Its number, for `result`."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": words}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        return self.number

    def result(self, number):
        deadline = time.monotonic() + WAIT_S
        while number not in self.results:
            left = deadline - time.monotonic()
            check(left > 0 and select.select([self.answers], [], [], left)[0], "the browser does not answer")
            data = os.read(self.answers, 1 << 16)
            check(data, "the browser has ended")
            *texts, self.rest = (self.rest + data).split(b"\0")
            for told in map(json.loads, texts):
                if "id" in told:
                    self.results[told["id"]] = told
                else:
                    self.events.append(told)
        told = self.results.pop(number)
        if "error" in told:
            raise Failure(f"the browser refuses: {told['error']}")
        return told["result"]

    def call(self, method, session=None, **words):
        return self.result(self.send(method, session, **words))

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=url)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def call(self, method, **words):
        return self.browser.call(method, self.session, **words)

    def value(self, expression):
        """What it is, or what it promises."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        check("exceptionDetails" not in told, f"{expression}: {told.get('exceptionDetails')}")
        return told["result"].get("value")

    def wait(self, expression, what):
        deadline = time.monotonic() + WAIT_S
        while not self.value(expression):
            check(time.monotonic() < deadline, f"{what}: {self.value('document.body.innerText')}")
            time.sleep(0.05)  # between looks, not instead of them

    def resize(self, width, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            words = {"text": key} if key == " " and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key,
                      windowsVirtualKeyCode=KEYS[key], **words)

    def picture(self, name):
        """Into the folder that CLEAVE_PICTURES names, for people to look at."""
        folder = os.environ.get("CLEAVE_PICTURES")
        if not folder:
            return
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{name}.png"), "wb") as file:
            file.write(base64.b64decode(data))

    def told(self, method):
        """What the browser said by itself of this page, so far."""
        return [e["params"] for e in self.browser.events
                if e["method"] == method and e.get("sessionId") == self.session]
