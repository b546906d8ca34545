"""Says something to a socket that may hang up at any time."""

import socket


def talk_to(path, message, whole=False):
    """What is answered: a line of it, or with `whole` everything. b"" when the other end hung up."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(20)
        peer.connect(path)
        try:
            peer.sendall(message)
            answer = peer.makefile("rb")
            return answer.read() if whole else answer.readline()
        except (BrokenPipeError, ConnectionResetError):
            return b""
