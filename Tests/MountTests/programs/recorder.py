"""Stands in front of a store, or is the proxy on the way to it, and writes down what a client sends.

recorder.py LOG TO [--tls CERTIFICATE KEY [--client CERTIFICATE]] [--silent-first] [--redirect HOST URL]

Appends a line of JSON to LOG for each request before it is passed on to TO (host:port): method, target, headers by
lower-case names, length of the body, and how many transfers of its kind are under way with it. Prints its port.

--tls           speaks TLS with this certificate
--client       refuses clients without this certificate
--silent-first  never says a word to the first connection
--redirect      sends requests for HOST to URL instead of passing them on

Answers itself: /dns-query, as a resolver over HTTPS (RFC 8484) that knows 127.0.0.1 alone; PUT /_recorder/hold with a
line such as `GET 3`: transfers of this kind wait until so many of them are under way together, then a moment more for
one too many; without a line nothing waits any longer.
"""

import http.client
import http.server
import json
import socket
import ssl
import sys
import threading
import urllib.parse

MOMENT = 0.3


class Lane:
    """Transfers of one method."""

    def __init__(self):
        self.lock = threading.Lock()
        self.now = 0
        self.wanted = 0
        self.opened = threading.Event()
        self.opened.set()

    def hold(self, wanted):
        with self.lock:
            self.opened.set()
            self.wanted = wanted
            self.opened = threading.Event()
            if self.now >= wanted:
                self.opened.set()

    def enter(self):
        with self.lock:
            self.now += 1
            if self.now >= self.wanted:
                self.opened.set()
            return self.now, self.opened, self.wanted

    def leave(self):
        with self.lock:
            self.now -= 1


class Recorder(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    upstream = None

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except (ConnectionError, ssl.SSLError, http.client.HTTPException):
            self.close_connection = True

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.serve
        raise AttributeError(name)

    def log_message(self, *_):
        pass

    def serve(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = urllib.parse.urlsplit(self.path).path
        if path == "/_recorder/hold":
            return self.control(body)
        lane = self.lane()
        together, opened, wanted = lane.enter() if lane else (0, None, 0)
        try:
            self.record(body, together)
            if wanted:
                opened.wait(60)
                threading.Event().wait(MOMENT)
            if path == "/dns-query":
                self.answer(200, {"Content-Type": "application/dns-message"}, self.resolve(body))
            elif redirect and self.headers["Host"] == redirect[0]:
                self.answer(307, {"Location": redirect[1] + path}, b"")
            else:
                self.forward(body)
        finally:
            if lane:
                lane.leave()

    def lane(self):
        """Of a request that moves an object's bytes."""
        query = urllib.parse.urlsplit(self.path).query
        if self.command == "GET" and not query:
            return lanes["GET"]
        if self.command == "PUT" and not any("copy-source" in name.lower() for name in self.headers):
            return lanes["PUT"]
        return None

    def record(self, body, together):
        line = {
            "method": self.command, "target": self.path, "length": len(body), "together": together,
            "headers": {name.lower(): value for name, value in self.headers.items()},
        }
        with log_lock:
            log.write(json.dumps(line) + "\n")
            log.flush()

    def control(self, body):
        words = body.decode().split()
        for name, lane in lanes.items():
            lane.hold(int(words[1]) if words and words[0] == name else 0)
        self.answer(200, {}, b"")

    def answer(self, status, headers, body):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def forward(self, body):
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection(to)
        self.upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "proxy-connection", "expect"):
                self.upstream.putheader(name, value)
        self.upstream.endheaders(body or None)
        answer = self.upstream.getresponse()
        content = answer.read()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None and answer.status != 204:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @staticmethod
    def resolve(query):
        """The question again, and for an address of version 4 an answer of 60 seconds."""
        end = query.index(b"\0", 12) + 5
        answers = 1 if query[end - 4:end - 2] == b"\0\1" else 0
        head = query[:2] + b"\x81\x80\0\1" + bytes([0, answers]) + b"\0\0\0\0"
        record = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + bytes([127, 0, 0, 1])
        return head + query[12:end] + record * answers


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    silent = []

    def process_request(self, request, address):
        if "--silent-first" in sys.argv and not self.silent:
            self.silent.append(request)
            return
        super().process_request(request, address)

    def finish_request(self, request, address):
        if certificate:
            try:
                request = certificate.wrap_socket(request, server_side=True)
            except (OSError, ssl.SSLError):
                return
        super().finish_request(request, address)

    def handle_error(self, request, address):
        pass


def option(name, count):
    if name not in sys.argv:
        return None
    start = sys.argv.index(name) + 1
    return sys.argv[start:start + count]


log, to = open(sys.argv[1], "a"), sys.argv[2]
log_lock = threading.Lock()
lanes = {"GET": Lane(), "PUT": Lane()}
redirect = option("--redirect", 2)
certificate = None
if files := option("--tls", 2):
    certificate = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.load_cert_chain(*files)
    if client := option("--client", 1):
        certificate.load_verify_locations(client[0])
        certificate.verify_mode = ssl.CERT_REQUIRED
server = Server(("127.0.0.1", 0), Recorder)
print(server.server_address[1], flush=True)
server.serve_forever()
