"""A small HTTP server that behaves like the Kubernetes API where a training job meets it.

Objects live in memory; every change gets a new resourceVersion and goes to the watches. It can be told to misbehave:
answer with an error a number of times, break a watch or a log in the middle, forget old versions (410 Gone).
"""

import contextlib
import http.server
import json
import re
import socket
import threading
import urllib.parse
import uuid

_API = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+)(?P<log>/log)?)?)?$"
)


class ApiServer:
    """Started on construction; `close` stops it. All times in seconds."""

    def __init__(self, resources=("batch/v1/jobs", "jobset.x-k8s.io/v1alpha2/jobsets")):
        self.resources = set(resources)
        self.lock = threading.Condition()
        self.objects = {}  # (plural, name) -> object
        self.events = []  # (version, plural, type, object)
        self.oldest_version = 0
        self.version = 100
        self.requests = []  # "METHOD path"
        self.failures = []  # (regular expression on "METHOD path", status, message), each used once
        self.broken_watches = 0  # how many watches still to break off after their next event
        self.broken_logs = 0  # how many logs still to break off after their next line
        self.logs = {}  # pod -> [(time stamp, line)]
        self.closed = False
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        with self.lock:
            self.closed = True
            self.lock.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def put(self, plural, item, kind="MODIFIED"):
        """Stores an object and tells the watches."""
        with self.lock:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            if kind == "DELETED":
                self.objects.pop((plural, item["metadata"]["name"]), None)
            else:
                self.objects[plural, item["metadata"]["name"]] = item
            self.events.append((self.version, plural, kind, json.loads(json.dumps(item))))
            self.lock.notify_all()

    def get(self, plural, name):
        with self.lock:
            return self.objects.get((plural, name))

    def set_condition(self, plural, name, condition, reason="", message="", status="True"):
        """What a controller does when a job changes its state."""
        item = json.loads(json.dumps(self.get(plural, name)))
        entry = {"type": condition, "status": status, "reason": reason, "message": message}
        item.setdefault("status", {}).setdefault("conditions", []).append(entry)
        self.put(plural, item)

    def forget_versions(self):
        """Watches from any version that was handed out until now get 410 Gone."""
        with self.lock:
            self.version += 1
            self.oldest_version = self.version
            self.events.clear()

    def add_pod(self, job, index, phase="Running", container="node"):
        """A pod of a job as its controller makes it."""
        labels = {"sluice/training-job": job, "batch.kubernetes.io/job-completion-index": str(index)}
        name = f"{job}-node-0-{index}-{uuid.uuid4().hex[:5]}"
        spec = {"containers": [{"name": container}]}
        metadata = {"name": name, "uid": str(uuid.uuid4()), "labels": labels, "namespace": "research"}
        self.logs[name] = []
        self.put("pods", {"metadata": metadata, "spec": spec, "status": {"phase": phase}}, "ADDED")
        return name

    def say(self, pod, stamp, line):
        """A pod writes a line."""
        with self.lock:
            self.logs[pod].append((stamp, line))
            self.lock.notify_all()

    def end_pod(self, name, exit_code, message="", reason="Error"):
        """A pod's container ends."""
        pod = json.loads(json.dumps(self.get("pods", name)))
        terminated = {"exitCode": exit_code, "reason": reason, "message": message}
        phase = "Failed" if exit_code else "Succeeded"
        pod["status"] = {"phase": phase, "containerStatuses": [{"name": "node", "state": {"terminated": terminated}}]}
        self.put("pods", pod)

    def pods_of(self, job):
        with self.lock:
            return [
                name
                for (plural, name), item in self.objects.items()
                if plural == "pods" and item["metadata"]["labels"]["sluice/training-job"] == job
            ]

    def fail(self, pattern, status, message="", times=1):
        """The next requests that match get this status."""
        self.failures += [(re.compile(pattern), status, message)] * times

    def wait_until(self, condition, timeout=20):
        """Waits for something to be true of this server; `condition` is called with its lock held."""
        with self.lock:
            assert self.lock.wait_for(lambda: self.closed or condition(), timeout), "it did not happen in time"

    def wait_for_request(self, pattern):
        self.wait_until(lambda: any(re.search(pattern, request) for request in self.requests))


def _handler(server):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args):
            """Nothing: pytest's output is for people."""

        def do_GET(self):
            self._serve("GET")

        def do_POST(self):
            self._serve("POST")

        def do_PATCH(self):
            self._serve("PATCH")

        def do_DELETE(self):
            self._serve("DELETE")

        def _serve(self, method):
            path, _, query = self.path.partition("?")
            query = dict(urllib.parse.parse_qsl(query))
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            request = f"{method} {path}" + (" (watch)" if query.get("watch") else "")
            with server.lock:
                server.requests.append(request)
                server.lock.notify_all()
                failure = next((item for item in server.failures if item[0].search(request)), None)
                if failure:
                    server.failures.remove(failure)
            if failure:
                self._status(failure[1], failure[2])
                return
            match = _API.match(path)
            if not match:
                self._status(404, f"no such path: {path}")
                return
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._answer(method, match.groupdict(), query, body)

        def _answer(self, method, target, query, body):
            plural, name = target["plural"], target["name"]
            if plural is None:
                self._discover(f"{target['group']}/{target['version']}")
            elif target["log"]:
                self._log(name, query)
            elif method == "POST":
                self._create(plural, body)
            elif name is None and query.get("watch"):
                self._watch(plural, query)
            elif name is None:
                key, _, value = query.get("labelSelector", "").partition("=")
                with server.lock:
                    items = [
                        item
                        for (kind, _), item in server.objects.items()
                        if kind == plural and (not key or item["metadata"].get("labels", {}).get(key) == value)
                    ]
                self._json(200, {"items": items, "metadata": {"resourceVersion": str(server.version)}})
            else:
                self._one(method, plural, name, body)

        def _discover(self, group_version):
            names = [item.rpartition("/")[2] for item in server.resources if item.rpartition("/")[0] == group_version]
            if not names:
                self._status(404, "the server could not find the requested resource")
                return
            resources = [
                {"name": name, "kind": name, "namespaced": True, "singularName": name, "verbs": ["get"]}
                for name in names
            ]
            self._json(200, {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources})

        def _create(self, plural, body):
            if server.get(plural, body["metadata"]["name"]):
                self._status(409, f'{plural} "{body["metadata"]["name"]}" already exists', reason="AlreadyExists")
                return
            body["metadata"]["uid"] = str(uuid.uuid4())
            server.put(plural, body, "ADDED")
            self._json(201, body)

        def _one(self, method, plural, name, body):
            item = server.get(plural, name)
            if item is None:
                self._status(404, f'{plural} "{name}" not found', reason="NotFound")
            elif method == "GET":
                self._json(200, item)
            elif method == "PATCH":
                assert self.headers["Content-Type"] in (
                    "application/merge-patch+json",
                    "application/strategic-merge-patch+json",
                    "application/json-patch+json",
                ), self.headers["Content-Type"]
                assert isinstance(body, dict), "a merge patch is an object"
                changed = json.loads(json.dumps(item))
                changed["metadata"] |= body["metadata"]
                server.put(plural, changed)
                self._json(200, changed)
            else:
                server.put(plural, item, "DELETED")
                for pod in server.pods_of(name):  # garbage collection
                    server.put("pods", server.get("pods", pod), "DELETED")
                self._json(200, {"kind": "Status", "status": "Success"})

        def _watch(self, plural, query):
            position = int(query["resourceVersion"])
            if position < server.oldest_version:
                self._status(410, "too old resource version", reason="Expired")
                return
            name = query["fieldSelector"].partition("=")[2]
            self._start_stream("application/json")
            while True:
                with server.lock:
                    _wait_for_event(position)
                    events = _after(position)
                    is_expired = server.oldest_version > position
                    if server.closed:
                        return
                if is_expired:
                    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                    self._piece(json.dumps({"type": "ERROR", "object": status}) + "\n")
                    break
                if not events:
                    break  # the time is up
                for version, kind, event, item in events:
                    position = version
                    if kind == plural and item["metadata"]["name"] == name:
                        text = json.dumps({"type": event, "object": item}) + "\n"
                        if server.broken_watches > 0:
                            server.broken_watches -= 1
                            self._piece(text[: len(text) // 2])
                            self.connection.shutdown(socket.SHUT_RDWR)
                            return
                        self._piece(text[:7])  # pieces end where they like
                        self._piece(text[7:])
            self._end_stream()

        def _log(self, pod, query):
            assert query["follow"] == "True" or query["follow"] == "true"
            assert query["container"] == "node"
            self._start_stream("text/plain")
            position = 0
            while True:
                with server.lock:
                    _wait_for_line(pod, position)
                    lines = server.logs[pod][position:]
                    has_ended = _has_ended(pod)
                    if server.closed:
                        return
                for stamp, line in lines:
                    position += 1
                    self._piece(f"{stamp} {line}\n")
                    if server.broken_logs > 0:
                        server.broken_logs -= 1
                        self.connection.shutdown(socket.SHUT_RDWR)
                        return
                if has_ended and not lines:
                    break
            self._end_stream()

        def _start_stream(self, content_type):
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def _piece(self, text):
            data = text.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _end_stream(self):
            self.wfile.write(b"0\r\n\r\n")

        def _status(self, code, message, reason=""):
            status = {"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": reason}
            self._json(code, status)

        def _json(self, code, value):
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def _after(position):
        return [event for event in server.events if event[0] > position]

    def _wait_for_event(position):
        server.lock.wait_for(lambda: server.closed or server.oldest_version > position or _after(position), timeout=10)

    def _wait_for_line(pod, position):
        server.lock.wait_for(lambda: server.closed or len(server.logs[pod]) > position or _has_ended(pod))

    def _has_ended(pod):
        item = server.objects.get(("pods", pod))
        return item is None or item["status"]["phase"] in ("Succeeded", "Failed")

    return Handler
