"""Plays what stands around a mount with a keeper. Each act reads commands from standard input, one a line, until an empty one, and
answers each with one line.

usage: kept.py use FILE
           Opens FILE once. The command is text that is written behind what was written before; the answer is the file's content,
           or the name of the error.
       kept.py manage SOCKET COMMAND...
           A service manager with a store of descriptors. start: runs COMMAND, with what is in the store, and answers when that
           says it is ready or ends; kill, term: signals it and its children and answers with its status; stored: the names in
           the store, without those of connections that have ended; wait: waits until it has ended by itself.
       kept.py run
           The command is a list of words in JSON; the answer is its status and what it printed, in JSON.
       kept.py answer SOCKET LINE
           A keeper that answers every request with LINE.
"""

import array
import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys


def answer(text):
    print(text, flush=True)


def commands():
    for line in sys.stdin:
        if line == "\n":
            return
        yield line.rstrip("\n")


def use(path):
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    for line in commands():
        try:
            os.write(file, line.encode())
            answer(os.pread(file, 1 << 16, 0).decode())
        except OSError as error:
            answer(errno.errorcode[error.errno])
    os.close(file)


class Manager:
    def __init__(self, path, command):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.path, self.command, self.child = path, command, None
        self.store = []

    def receive(self):
        """Takes one message; True when it says READY."""
        text, rights, _, _ = self.socket.recvmsg(4096, 4096)
        fields = dict(line.split("=", 1) for line in text.decode().splitlines())
        numbers = array.array("i")
        for level, kind, data in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers.frombytes(data)
        if "FDSTORE" in fields:
            self.store += [(fields["FDNAME"], number) for number in numbers]
        if "FDSTOREREMOVE" in fields:
            for name, number in self.store:
                if name == fields["FDNAME"]:
                    os.close(number)
            self.store = [entry for entry in self.store if entry[0] != fields["FDNAME"]]
        return "READY" in fields

    def start(self):
        environment = dict(os.environ, NOTIFY_SOCKET=self.path)
        # Above the numbers at which the command expects them.
        moved = [(name, os.dup(number)) for name, number in self.store]

        def pass_on():
            for index, (_, number) in enumerate(moved):
                os.dup2(number, 100 + index)
            for index in range(len(moved)):
                os.dup2(100 + index, 3 + index)
            os.closerange(3 + len(moved), 256)
            if moved:
                os.environ.update(
                    environment, LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(moved)),
                    LISTEN_FDNAMES=":".join(name for name, _ in moved))
            else:
                os.environ.update(environment)
            os.execvp(self.command[0], self.command)

        child = os.fork()
        if child == 0:
            pass_on()
        for _, number in moved:
            os.close(number)
        self.child = child
        while True:
            if select.select([self.socket], [], [], 0.05)[0]:
                if self.receive():
                    return "ready"
                continue
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return f"ended {os.waitstatus_to_exitcode(status)}"

    def end(self, number):
        if number:
            with open(f"/proc/{self.child}/task/{self.child}/children") as file:
                children = [int(word) for word in file.read().split()]
            for process in [self.child] + children:
                os.kill(process, number)
        while True:
            while select.select([self.socket], [], [], 0.02)[0]:
                self.receive()
            ended, status = os.waitpid(self.child, os.WNOHANG)
            if ended:
                return f"ended {os.waitstatus_to_exitcode(status)}"

    def stored(self):
        poll = select.poll()
        for name, number in self.store:
            try:
                poll.register(number, 0)
            except PermissionError:
                pass
        gone = {number for number, events in poll.poll(0) if events & (select.POLLERR | select.POLLHUP)}
        return " ".join(sorted(name for name, number in self.store if number not in gone))


def manage(path, command):
    manager = Manager(path, command)
    acts = {
        "start": manager.start, "stored": manager.stored, "wait": lambda: manager.end(0),
        "kill": lambda: manager.end(signal.SIGKILL), "term": lambda: manager.end(signal.SIGTERM),
    }
    for line in commands():
        answer(acts[line]())


def answer_all(path, line):
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen()
    while True:
        peer, _ = server.accept()
        if peer.recv(4096):
            peer.sendall(line.encode() + b"\n")
            peer.recv(4096)
        peer.close()


def run():
    for line in commands():
        ended = subprocess.run(json.loads(line), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        answer(json.dumps([ended.returncode, ended.stdout]))


act, rest = sys.argv[1], sys.argv[2:]
if act == "use":
    use(rest[0])
elif act == "manage":
    manage(rest[0], rest[1:])
elif act == "run":
    run()
else:
    answer_all(rest[0], rest[1])
