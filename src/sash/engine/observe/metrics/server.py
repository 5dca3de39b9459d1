"""A page for Prometheus to read: http://HOST:PORT/metrics, as long as the run lasts.

Whoever asks gets the text of the last batch; asking costs the run nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sash.disk import reason
from sash.errors import UserError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PATH = "/metrics"


class Page:
    """What is served. A batch replaces the text as a whole; `port` is where the page is."""

    def __init__(self, port: int = 0) -> None:
        self.text = ""
        self.port = port


@contextmanager
def served(host: str, port: int) -> Iterator[Page]:
    """Serve a page until the block ends; port 0 takes one that is free."""
    page = Page()
    try:
        server = _Server((host, port), _handler(page))
    except (OSError, OverflowError) as failure:
        raise UserError(
            f"cannot serve metrics at {host}:{port}",
            got=reason(failure) if isinstance(failure, OSError) else str(failure),
            hint="choose another --metrics-port or --metrics-host",
            id="metrics",
        ) from failure
    page.port = int(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="sash-metrics", daemon=True)
    thread.start()
    try:
        yield page
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # A reader that hangs must not keep the run from ending.
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is nobody's concern."""


def _handler(page: Page) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # Seconds that a reader may take to say what it wants.
        timeout = 10

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}")
                return
            content = page.text.encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """The terminal is for the run."""

    return Handler
