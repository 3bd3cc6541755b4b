#!/usr/bin/env python3
"""Puts the headers of cmake/cuda_headers.txt, and what they include, into build/cuda-headers.

Does nothing twice. The wheels that hold them hold NVIDIA's libraries too, more than a gigabyte. A wheel
is a zip archive, so where the package index serves parts of files only the members that are needed are
fetched, a few megabytes; where it does not, whole wheels, with pip. Run it with a Python that has pip
(build/venv/bin/python): pip's configuration says which index.
"""
import html.parser
import io
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "cmake/cuda_headers.txt"
TARGET = ROOT / "build/cuda-headers"


class Parts(io.RawIOBase):
    """A file behind a URL, of which only what is read is fetched, in blocks."""

    BLOCK = 128 << 10  # the headers of a wheel lie together: fewer requests, little too much

    def __init__(self, url, opener):
        self.url, self.opener, self.blocks, self.at, self.fetched = url, opener, {}, 0, 0
        self.size = int(self.request("bytes=0-0").headers["Content-Range"].rpartition("/")[2])

    def request(self, span):
        answer = self.opener.open(urllib.request.Request(self.url, headers={"Range": span}), timeout=60)
        if answer.status != 206:
            answer.close()
            raise OSError(f"{self.url} is not served in parts")
        return answer

    def block(self, number):
        if number not in self.blocks:
            begin = number * self.BLOCK
            last = min(begin + self.BLOCK, self.size) - 1
            data = self.request(f"bytes={begin}-{last}").read()
            if len(data) != last + 1 - begin:
                raise OSError(f"{self.url}: a part came back short")
            self.blocks[number] = data
            self.fetched += len(data)
        return self.blocks[number]

    def readinto(self, buffer):
        number, offset = divmod(self.at, self.BLOCK)
        data = self.block(number)[offset:offset + len(buffer)] if self.at < self.size else b""
        buffer[:len(data)] = data
        self.at += len(data)
        return len(data)

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self):
        return self.at

    def readable(self):
        return True

    def seekable(self):
        return True


class Index:
    """The package index that pip is configured to use, read as its protocol (PEP 503) says."""

    def __init__(self):
        configured = dict(line.split("=", 1) for line in pip("config", "list").splitlines() if "=" in line)
        settings = {key.rpartition(".")[2]: value.strip("'\"") for key, value in configured.items()}
        from pip._internal.models.index import PyPI  # pip's own default
        self.url = settings.get("index-url", PyPI.simple_url).rstrip("/")
        context = ssl.create_default_context(cafile=settings.get("cert"))
        self.opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))

    def wheel(self, name, version):
        """The URL of the wheel of that version for this kind of machine."""
        page_url = f"{self.url}/{name}/"
        page = self.opener.open(page_url, timeout=60).read().decode()
        links = []

        class Links(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                links.extend(value for key, value in attributes if tag == "a" and key == "href")

        Links().feed(page)
        stem = f"{name.replace('-', '_')}-{version}-"
        for link in links:
            file = urllib.parse.unquote(urllib.parse.urlsplit(link).path).rpartition("/")[2]
            if file.startswith(stem) and file.endswith(("x86_64.whl", "any.whl")):
                return urllib.parse.urldefrag(urllib.parse.urljoin(page_url, link)).url
        raise OSError(f"{page_url} has no wheel {stem}*x86_64.whl")


def pip(*arguments):
    return subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def in_parts(wheels):
    """Opens the wheels without fetching them."""
    index = Index()
    return [Parts(index.wheel(*wheel.split("==")), index.opener) for wheel in wheels]


def whole(wheels, directory):
    """Fetches the wheels into `directory`."""
    pip("download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", directory, *wheels)
    return [open(path, "rb") for path in sorted(pathlib.Path(directory).glob("*.whl"))]


def unpack(files, wanted, target):
    """Unpacks `wanted` and all that they include, as far as these archives have it."""
    headers = {}  # by the name that an #include gives, under include/ and include/cccl/ alike
    for file in files:
        archive = zipfile.ZipFile(io.BufferedReader(file, 64 << 10) if isinstance(file, Parts) else file)
        for member in archive.namelist():
            _, found, name = member.partition("/include/")
            if found and not name.endswith("/"):
                headers[name.removeprefix("cccl/")] = (archive, member)
    missing = [name for name in wanted if name not in headers]
    if missing:
        raise LookupError(f"the wheels of {LIST.name} hold no {', '.join(missing)}")
    queue, seen = list(wanted), set(wanted)
    for name in queue:  # grows as it is read
        archive, member = headers[name]
        text = archive.read(member)
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        for included in re.findall(rb'^\s*#\s*include\s*[<"]([^">]+)[>"]', text, re.MULTILINE):
            beside = os.path.normpath(os.path.join(os.path.dirname(name), included.decode()))
            for candidate in (beside, included.decode()):
                if candidate in headers and candidate not in seen:
                    seen.add(candidate)
                    queue.append(candidate)
    return len(queue)


def main():
    stamp = TARGET / "list"
    if stamp.exists() and stamp.read_text() == LIST.read_text():
        return
    rows = [line.split() for line in LIST.read_text().splitlines() if line and line[0] != "#"]
    wheels, wanted = [row[0] for row in rows], [name for row in rows for name in row[1:]]
    print("== fetching headers of CUDA, cuBLAS, cuDNN and NCCL", flush=True)
    shutil.rmtree(TARGET, ignore_errors=True)
    try:
        files = in_parts(wheels)
        count = unpack(files, wanted, TARGET / "include")
        fetched = sum(file.fetched for file in files)
        total = sum(file.size for file in files)
    except (OSError, ImportError, zipfile.BadZipFile) as why:
        print(f"   the index does not serve parts of wheels ({why}); fetching them whole, more than 1 GB", flush=True)
        shutil.rmtree(TARGET, ignore_errors=True)
        with tempfile.TemporaryDirectory() as directory:
            files = whole(wheels, directory)
            count = unpack(files, wanted, TARGET / "include")
            fetched = total = sum(os.fstat(file.fileno()).st_size for file in files)
            for file in files:
                file.close()
    print(f"   {count} headers in build/cuda-headers; {fetched / 1e6:.1f} MB fetched of wheels of {total / 1e6:.0f} MB")
    stamp.write_text(LIST.read_text())


if __name__ == "__main__":
    main()
