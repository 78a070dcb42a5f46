"""A headless Chromium, driven over a pair of pipes (--remote-debugging-pipe): messages are JSON, each ended by a zero byte."""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

DEADLINE = 60.0


def find():
    """The program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    def __init__(self, width=1400, height=1000, dark=False):
        self.folder = tempfile.TemporaryDirectory()
        to_it, self.write_end = os.pipe()
        self.read_end, from_it = os.pipe()
        flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars", "--remote-debugging-pipe",
                 f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}", "about:blank")

        def take_pipes():  # Chromium reads from 3 and writes to 4
            reader, writer = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_it, from_it))
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        self.process = subprocess.Popen([find(), *flags], preexec_fn=take_pipes, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_it)
        os.close(from_it)
        self.pending, self.number, self.session, self.events = b"", 0, None, []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(domain + ".enable")
        self.size(width, height)
        self.theme(dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.read_end)
        os.close(self.write_end)
        for _ in range(50):  # its children may still be writing
            try:
                self.folder.cleanup()
                return
            except OSError:
                time.sleep(0.1)

    def message(self, end):
        while b"\0" not in self.pending:
            if not select.select([self.read_end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"Chromium does not answer in {DEADLINE} s")
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise AssertionError("Chromium has ended")
            self.pending += data
        text, _, self.pending = self.pending.partition(b"\0")
        return json.loads(text)

    def send(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + DEADLINE
        while True:
            answer = self.message(end)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def size(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, dark):
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def js(self, expression):
        """The value of an expression, which may be a promise."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, path):
        self.send("Page.navigate", url="file://" + os.path.abspath(path))
        self.until("document.body && document.body.dataset.ready === 'yes'")
        self.settle()

    def until(self, expression):
        end = time.monotonic() + DEADLINE
        while not self.js(expression):
            if time.monotonic() > end:
                raise AssertionError(f"still not so: {expression}; {self.faults()}")
            time.sleep(0.02)

    def settle(self):
        """Waits until what was asked for was drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))")

    def faults(self):
        """Exceptions and complaints of the page so far."""
        found = [e["params"]["exceptionDetails"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]
        return found + [e["params"]["entry"] for e in self.events if e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def mouse(self, kind, x, y, **more):
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.settle()

    def drag(self, x0, y0, x1, y1, modifiers=0):
        self.mouse("mousePressed", x0, y0, button="left", clickCount=1, modifiers=modifiers)
        for step in range(1, 5):
            self.mouse("mouseMoved", x0 + (x1 - x0) * step / 4, y0 + (y1 - y0) * step / 4, button="left", buttons=1, modifiers=modifiers)
        self.mouse("mouseReleased", x1, y1, button="left", clickCount=1, modifiers=modifiers)
        self.settle()

    def wheel(self, x, y, delta):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.settle()

    def key(self, key):
        text = key if len(key) == 1 else None
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def screenshot(self, path, whole=False):
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
