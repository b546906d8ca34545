"""A proxy between one mount and its store. It holds a chosen request before the store has it, or its answer before the mount
has it, for as long as a test needs: to kill the mount's worker there, to look at the mount, or to change the bucket.

A fault of pailstore cannot do this: replacing the faults of one case would lift those of the others, and the request log
has no line of a request whose answer waits. Requests are counted by kind (PUT, COPY, DELETE ...) among those that name one
directory, so that cases which share a mount do not disturb the count."""

import base64
import collections
import socket
import threading
import time
import urllib.parse

CHANGES = {"PUT", "COPY", "CREATE", "PART", "PARTCOPY", "COMPLETE", "DELETE", "BATCH", "MOVE", "ABORT", "PUTLINK", "POST"}
# Kodo names its requests by the first component of their path.
KODO = {"stat": "STAT", "move": "MOVE", "copy": "COPY", "delete": "DELETE", "list": "LIST", "v2": "LIST", "batch": "BATCH",
        "chgm": "CHANGE", "setmeta": "CHANGE", "chtype": "CHANGE", "mkblk": "PART", "mkfile": "COMPLETE"}


class Request:
    """One request as it came in: the head without hop-by-hop headers, and the whole body."""

    def __init__(self, method, target, lines, body):
        self.method, self.target, self.body = method, target, body
        address = urllib.parse.urlsplit(target)
        self.port = address.port
        self.path = address.path or "/"
        self.query = urllib.parse.parse_qs(address.query, keep_blank_values=True)
        self.headers = {}
        kept = []
        for line in lines:
            name, _, value = line.partition(b":")
            self.headers[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
            if not name.lower().startswith(b"proxy-"):
                kept.append(line)
        origin = self.path + ("?" + address.query if address.query else "")
        self.head = b"\r\n".join([f"{method} {origin} HTTP/1.1".encode("latin-1"), *kept, b"", b""])

    def has_header(self, *ends):
        return any(name.endswith(end) for name in self.headers for end in ends)

    def kind(self, scheme):
        """The request's work, in one word that every dialect shares."""
        first = self.path.split("/")[1]
        if scheme == "kodo" and not self.path.startswith("/buckets/"):
            if first in KODO:
                return KODO[first]
            return "PUT" if self.method == "POST" else self.method
        if scheme == "kodo":
            return {"PUT": "PART", "DELETE": "ABORT", "GET": "PARTS"}.get(
                self.method, "CREATE" if self.path.endswith("/uploads") else "COMPLETE")
        if self.method == "PUT":
            part = "partNumber" in self.query
            if self.has_header("-copy-source", "x-copy-from"):
                return "PARTCOPY" if part else "COPY"
            for name in ("acl", "symlink", "tagging"):
                if name in self.query:
                    return "PUT" + ("LINK" if name == "symlink" else name.upper())
            return "PART" if part else "PUT"
        if self.method == "POST":
            for name, kind in (("uploads", "CREATE"), ("uploadId", "COMPLETE"), ("delete", "BATCH")):
                if name in self.query:
                    return kind
        if self.method == "DELETE" and "uploadId" in self.query:
            return "ABORT"
        if self.method == "GET":
            for name, kind in (("uploads", "UPLOADS"), ("uploadId", "PARTS"), ("acl", "GETACL"), ("tagging", "GETTAGGING"),
                               ("symlink", "GETLINK"), ("prefix", "LIST"), ("list-type", "LIST")):
                if name in self.query:
                    return kind
        return self.method

    def names(self, word):
        """Whether the request is about a key that has this word in it."""
        small = self.body[:65536] if len(self.body) > 65536 else self.body
        copied = "".join(value for name, value in self.headers.items() if "copy" in name or name == "destination")
        if word in self.path or word in copied or any(word in value for values in self.query.values() for value in values):
            return True
        if word.encode() in small:
            return True
        pieces = self.path.split("/")
        if b"op=" in small:
            pieces += urllib.parse.unquote_to_bytes(small).decode("latin-1").replace("&", "/").split("/")
        # Kodo names bucket and key in base64.
        return any(word.encode() in decoded(piece) for piece in pieces if len(piece) > len(word))


def decoded(piece):
    try:
        return base64.urlsafe_b64decode(piece + "=" * (-len(piece) % 4))
    except ValueError:
        return b""


class Gate:
    """Listens for one mount. `begin` starts the count for a directory; `arm` chooses the request to hold."""

    def __init__(self, scheme):
        self.scheme = scheme
        self.lock = threading.Condition()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        # `lock` guards what follows.
        self.word, self.counts, self.trace = None, collections.Counter(), []
        self.target, self.state = None, None
        self.stalls, self.visitor, self.visiting = False, None, False
        self.under_way, self.last = 0, time.monotonic()
        threading.Thread(target=self.listen, daemon=True).start()

    # Called by a test.

    def begin(self, word, target=None, visitor=None):
        """Counts the requests about `word` from now on. `target` is (kind, number, side): that one is held. `visitor` is
        called at every request, before and after the store does it, and ends with `visited`."""
        with self.lock:
            self.word, self.counts, self.trace = word, collections.Counter(), []
            self.target, self.state, self.visitor, self.stalls = target, None, visitor, False
            self.lock.notify_all()

    def stall(self, word):
        """Changes about `word` wait, uncounted, until `begin`."""
        with self.lock:
            self.word, self.stalls = word, True

    def is_held(self):
        with self.lock:
            return self.state == "held"

    def release(self):
        """Lets the held request go on."""
        self.end("released")

    def drop(self):
        """The held request is forgotten: the process that sent it is gone."""
        self.end("dropped")

    def end(self, state):
        with self.lock:
            self.target = None
            if self.state == "held":
                self.state = state
            self.lock.notify_all()

    def is_quiet(self, seconds):
        with self.lock:
            return self.under_way == 0 and time.monotonic() - self.last >= seconds

    def end_visits(self):
        with self.lock:
            self.visitor = None

    def visited(self):
        """The visitor is through with what it was called for; until then requests are not counted, since they may be its own."""
        with self.lock:
            self.visiting = False

    def close(self):
        self.begin(None)
        self.drop()
        self.listener.close()

    # Run by its own threads.

    def listen(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=[client], daemon=True).start()

    def serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        upstreams, reader = {}, client.makefile("rb")
        try:
            while request := read_request(reader):
                if not self.pass_on(request, client, upstreams):
                    return
        except (OSError, ValueError):
            pass
        finally:
            for each, file in upstreams.values():
                file.close()
                each.close()
            reader.close()
            client.close()

    def pass_on(self, request, client, upstreams):
        """Whether the connection goes on."""
        kind = request.kind(self.scheme)
        with self.lock:
            self.under_way += 1
        try:
            number = self.admit(request, kind)
            if not self.point(kind, number, "before"):
                return False
            if request.port not in upstreams:
                upstream = socket.create_connection(("127.0.0.1", request.port))
                upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                upstreams[request.port] = (upstream, upstream.makefile("rb"))
            upstream, answers = upstreams[request.port]
            upstream.sendall(request.head + request.body)
            answer, goes_on = read_answer(answers, request.method)
            if not self.point(kind, number, "after"):
                return False
            client.sendall(answer)
            return goes_on
        finally:
            with self.lock:
                self.under_way -= 1
                self.last = time.monotonic()

    def admit(self, request, kind):
        """The number of the request among those of its kind; None for one that is not counted."""
        with self.lock:
            self.last = time.monotonic()
            if not self.word or not request.names(self.word):
                return None
            while self.stalls and kind in CHANGES:
                self.lock.wait()
            if self.visiting or not request.names(self.word or "?"):
                return None
            self.counts[kind] += 1
            self.trace.append((kind, self.counts[kind], f"{request.method} {request.target}"))
            return self.counts[kind]

    def point(self, kind, number, side):
        """Holds the request here if it is the one. False if it is to be forgotten."""
        if number is None:
            return True
        with self.lock:
            visitor = self.visitor if not self.visiting else None
            if visitor:
                self.visiting = True
        if visitor:
            visitor(f"{kind}-{number}-{side}")
        with self.lock:
            if self.target != (kind, number, side):
                return True
            self.target, self.state = None, "held"
            self.lock.notify_all()
            while self.state == "held":
                self.lock.wait()
            return self.state != "dropped"


def read_head(reader):
    lines = []
    while True:
        line = reader.readline(65536)
        if not line:
            return None
        line = line.rstrip(b"\r\n")
        if not line:
            if lines:
                return lines
            continue
        lines.append(line)


def read_chunks(reader):
    """A chunked body as it is on the wire."""
    wire = b""
    while True:
        line = reader.readline()
        wire += line
        size = int(line.split(b";")[0], 16)
        if size == 0:
            while (line := reader.readline()) not in (b"\r\n", b"\n", b""):
                wire += line
            return wire + b"\r\n"
        wire += reader.read(size + 2)


def fields(lines):
    return {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}


def read_request(reader):
    lines = read_head(reader)
    if not lines:
        return None
    method, target, _ = lines[0].decode("latin-1").split(" ", 2)
    headers = fields(lines[1:])
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = read_chunks(reader)
    else:
        length = int(headers.get(b"content-length", b"0"))
        body = reader.read(length)
        if len(body) < length:
            return None
    return Request(method, target, lines[1:], body)


def read_answer(reader, method):
    """The whole answer as it is on the wire, and whether the connection goes on after it."""
    while True:
        lines = read_head(reader)
        if not lines:
            raise OSError("the store closed the connection")
        status = int(lines[0].split(b" ")[1])
        if status != 100:
            break
    headers = fields(lines[1:])
    head = b"\r\n".join([*lines, b"", b""])
    goes_on = headers.get(b"connection", b"").lower() != b"close"
    if method == "HEAD" or status in (204, 304):
        return head, goes_on
    if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
        return head + read_chunks(reader), goes_on
    if b"content-length" in headers:
        return head + reader.read(int(headers[b"content-length"])), goes_on
    return head + reader.read(), False
