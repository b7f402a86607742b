"""A package index of a test's own on loopback, with packages that are made for it."""

import base64
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class PackageIndex:
    """The files of packages, and what was asked of them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        # Files that the index has and can't hand out now.
        self.away: set[str] = set()
        self.url = ""

    def add(self, name: str, version: str, *needs: str, extras: Sequence[str] = ()) -> str:
        """Add a release of a package; gives its line of a lock."""
        fields = [f"Requires-Dist: {each}\n" for each in needs]
        fields += [f"Provides-Extra: {each}\n" for each in extras]
        return self.add_files(name, version, {f"{name}.py": b""}, "".join(fields))

    def add_files(self, name: str, version: str, files: dict[str, bytes], fields: str = "") -> str:
        """Add a release that has these files; gives its line of a lock."""
        about = f"{name}-{version}.dist-info"
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        files = {
            **files,
            f"{about}/METADATA": f"{head}{fields}".encode(),
            f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = [f"{path},{_digest(data)},{len(data)}\n" for path, data in files.items()]
        files[f"{about}/RECORD"] = "".join([*record, f"{about}/RECORD,,\n"]).encode()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as wheel:
            for path, data in files.items():
                entry = zipfile.ZipInfo(path)
                entry.external_attr = 0o100755 << 16
                wheel.writestr(entry, data)
        file = f"{name}-{version}-py3-none-any.whl"
        self.files[file] = packed.getvalue()
        hashed = hashlib.sha256(packed.getvalue()).hexdigest()
        return f"{name}=={version} --hash=sha256:{hashed}\n"

    def page_of(self, name: str) -> str:
        """The page of one package, as PEP 503 says."""
        files = [each for each in self.files if each.startswith(f"{name}-")]
        return "".join(f'<a href="/files/{each}">{each}</a>\n' for each in files)


def _digest(data: bytes) -> str:
    hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=")
    return f"sha256={hashed.decode()}"


def pack_uv(index: PackageIndex, folder: Path) -> str:
    """Add the uv that is installed in a folder; gives its line of a lock."""
    [about] = folder.glob("uv-*.dist-info")
    version = about.name.removeprefix("uv-").removesuffix(".dist-info")
    program = (folder / "bin" / "uv").read_bytes()
    return index.add_files("uv", version, {f"uv-{version}.data/scripts/uv": program})


@contextmanager
def serve_index() -> Iterator[PackageIndex]:
    """An empty index that listens."""
    index = PackageIndex()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            name = self.path.rstrip("/").rpartition("/")[2]
            body = index.files.get(name) if "/files/" in self.path else None
            if "/simple/" in self.path:
                body = index.page_of(re.sub(r"[-_.]+", "-", name)).encode()
            if body is None or name in index.away:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html" if "/simple/" in self.path else "app/zip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    index.url = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
