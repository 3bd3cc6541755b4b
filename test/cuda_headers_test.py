#!/usr/bin/env python3
"""Tests cmake/fetch_cuda_headers.py against a package index of its own, and the list that it works by."""
import contextlib
import http.server
import importlib.util
import os
import pathlib
import re
import tempfile
import threading
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEEL = "vendor_headers-1.0-py3-none-manylinux2014_x86_64.whl"


def load():
    spec = importlib.util.spec_from_file_location("fetch", ROOT / "cmake/fetch_cuda_headers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Index(http.server.BaseHTTPRequestHandler):
    """A package index of one wheel. `parts` says whether it serves parts of files."""
    wheel, parts, sent = b"", True, 0

    def do_GET(self):
        if self.path == "/simple/vendor-headers/":
            return self.answer(200, f'<a href="../../files/{WHEEL}#sha256=">x</a>'.encode(), "text/html")
        if self.path != f"/files/{WHEEL}":
            return self.send_error(404)
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not (span and self.parts):
            return self.answer(200, self.wheel, "application/zip")
        begin, last = map(int, span.groups())
        Index.sent += last + 1 - begin
        self.answer(206, self.wheel[begin:last + 1], "application/zip",
                    {"Content-Range": f"bytes {begin}-{last}/{len(self.wheel)}"})

    def answer(self, status, body, kind, headers={}):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # who asked for a part wants no more of the whole
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Fetch(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        path = self.directory / WHEEL
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("nvidia/include/top.h", '#include "sub/inner.h"\n#  include <vector>\n')
            archive.writestr("nvidia/include/sub/inner.h", '#include "../beside.h"\n#include <nv/target>\n')
            archive.writestr("nvidia/include/beside.h", "#include <top.h>\n")
            archive.writestr("nvidia/include/cccl/nv/target", "target\n")
            archive.writestr("nvidia/include/never_included.h", "\n")
            archive.writestr("nvidia/lib/libvendor.so", os.urandom(4 << 20))
            archive.writestr("vendor_headers-1.0.dist-info/METADATA",
                             "Metadata-Version: 2.1\nName: vendor-headers\nVersion: 1.0\n")
            archive.writestr("vendor_headers-1.0.dist-info/WHEEL",
                             "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux2014_x86_64\n")
            archive.writestr("vendor_headers-1.0.dist-info/RECORD", "")
        Index.wheel, Index.sent = path.read_bytes(), 0
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(PIP_INDEX_URL=f"http://127.0.0.1:{server.server_port}/simple",
                          PIP_CONFIG_FILE=os.devnull, PIP_NO_CACHE_DIR="1")
        for name in ("PIP_FIND_LINKS", "PIP_CERT"):
            os.environ.pop(name, None)
        self.fetch = load()
        self.fetch.TARGET = self.directory / "headers"
        self.fetch.LIST = self.directory / "list.txt"
        self.fetch.LIST.write_text("# a comment\nvendor-headers==1.0 top.h\n")

    def unpacked(self):
        include = self.fetch.TARGET / "include"
        return sorted(str(p.relative_to(include)) for p in include.rglob("*") if p.is_file())

    WANTED = ["beside.h", "nv/target", "sub/inner.h", "top.h"]

    def test_fetches_the_parts_that_are_needed(self):
        Index.parts = True
        self.fetch.main()
        self.assertEqual(self.unpacked(), self.WANTED)
        self.assertLess(Index.sent, len(Index.wheel) / 4)
        sent = Index.sent
        self.fetch.main()
        self.assertEqual(Index.sent, sent, "it fetches twice")

    def test_fetches_whole_wheels_where_parts_are_not_served(self):
        Index.parts = False
        self.fetch.main()
        self.assertEqual(self.unpacked(), self.WANTED)

    def test_names_a_header_that_the_wheels_lack(self):
        Index.parts = True
        self.fetch.LIST.write_text("vendor-headers==1.0 top.h absent.h\n")
        with self.assertRaisesRegex(LookupError, "absent.h"):
            self.fetch.main()
        self.assertFalse((self.fetch.TARGET / "list").exists())


class List(unittest.TestCase):
    def test_names_every_header_that_our_sources_include(self):
        fetch = load()
        listed = {name for line in fetch.LIST.read_text().splitlines() if line[:1] != "#"
                  for name in line.split()[1:]}
        included = set()
        for folder in ("adapters", "test", "bench", "lib", "include"):
            for path in (ROOT / folder).rglob("*.?pp"):
                included.update(re.findall(r"^#include <((?:cu|nccl|nv|crt/)[^>]*)>", path.read_text(),
                                           re.MULTILINE))
        self.assertEqual(included - listed, set())


if __name__ == "__main__":
    unittest.main()
