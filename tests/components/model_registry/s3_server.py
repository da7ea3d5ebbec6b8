"""An HTTP server with the part of Amazon S3's API that s3fs needs for the registry; one lock makes conditions atomic.

PUT (with If-None-Match: *), GET, HEAD, DELETE, ListObjectsV2 with delimiter, DeleteObjects, multipart uploads are left
out: nothing here is that large. `says_condition` is how AWS words a failed condition; other stores leave it out.
"""

import hashlib
import http.server
import re
import threading
import urllib.parse
from xml.sax.saxutils import escape

_XML = '<?xml version="1.0" encoding="UTF-8"?>'


class S3Server:
    """Objects by "bucket/key"."""

    def __init__(self, says_condition: bool = True) -> None:
        self.objects: dict[str, bytes] = {}
        self.lock = threading.Lock()
        store = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                body = self._body()
                if self._path not in store.objects and "/" not in self._path:
                    self._answer(200)  # a bucket
                    return
                with store.lock:
                    if self.headers.get("If-None-Match") == "*" and self._path in store.objects:
                        condition = "<Condition>If-None-Match</Condition>" if says_condition else ""
                        self._error(412, "PreconditionFailed", condition)
                        return
                    store.objects[self._path] = body
                self._answer(200, headers={"ETag": _etag(body)})

            def do_GET(self) -> None:
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
                if "/" not in self._path:
                    self._answer(200, store.listing(self._path, query).encode())
                elif self._path in store.objects:
                    self._object()
                else:
                    self._error(404, "NoSuchKey")

            def do_HEAD(self) -> None:
                if self._path in store.objects or "/" not in self._path:
                    self._object()
                else:
                    self._answer(404)

            def do_DELETE(self) -> None:
                store.objects.pop(self._path, None)
                self._answer(204)

            def do_POST(self) -> None:
                bucket = self._path.split("/")[0]
                for key in re.findall(r"<Key>(.*?)</Key>", self._body().decode()):
                    store.objects.pop(f"{bucket}/{key}", None)
                self._answer(200, f"{_XML}<DeleteResult/>".encode())

            @property
            def _path(self) -> str:
                return urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/")

            def _body(self) -> bytes:
                if "aws-chunked" in self.headers.get("Content-Encoding", ""):
                    return self._chunks()
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))

            def _chunks(self) -> bytes:
                """The body of an upload with a trailing checksum: "SIZE;...\\r\\nBYTES\\r\\n", ended by size 0."""
                raw = self.rfile.read(int(self.headers["Content-Length"])) if "Content-Length" in self.headers else None
                assert raw is not None
                body = b""
                while raw:
                    size, _, raw = raw.partition(b"\r\n")
                    length = int(size.split(b";")[0], 16)
                    if length == 0:
                        break
                    body, raw = body + raw[:length], raw[length + 2 :]
                return body

            def _object(self) -> None:
                body = store.objects.get(self._path, b"")
                headers = {"ETag": _etag(body), "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
                wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
                if wanted:
                    first, last = int(wanted[1]), int(wanted[2] or len(body) - 1)
                    headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                    self._answer(206, body[first : last + 1], headers)
                else:
                    self._answer(200, body, headers)

            def _error(self, status: int, code: str, extra: str = "") -> None:
                text = f"{_XML}<Error><Code>{code}</Code><Message>{code}</Message>{extra}</Error>"
                self._answer(status, text.encode())

            def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> "S3Server":
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def listing(self, bucket: str, query: dict[str, list[str]]) -> str:
        """ListObjectsV2's answer."""
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        limit = int(query.get("max-keys", ["1000"])[0])
        contents, prefixes = [], []
        for path, body in sorted(self.objects.items()):
            key = path.removeprefix(f"{bucket}/")
            if key == path or not key.startswith(prefix):
                continue
            rest = key[len(prefix) :]
            if delimiter and delimiter in rest:
                prefixes.append(prefix + rest.split(delimiter)[0] + delimiter)
            else:
                contents.append((key, body))
        keys = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size><ETag>{_etag(body)}</ETag>"
            "<LastModified>2024-01-01T00:00:00Z</LastModified></Contents>"
            for key, body in contents[:limit]
        )
        folders = "".join(
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in dict.fromkeys(prefixes)
        )
        count = len(contents[:limit]) + len(dict.fromkeys(prefixes))
        return (
            f"{_XML}<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{count}</KeyCount>"
            f"<MaxKeys>{limit}</MaxKeys><IsTruncated>false</IsTruncated>{keys}{folders}</ListBucketResult>"
        )


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'
