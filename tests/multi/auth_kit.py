"""The handshake of src/auth/handshake.h, written again in Python: for attackers, and to hold the C code to its description."""

import hashlib
import hmac
import os
import socket
import struct

STORE, LINK, CLOCK = 1, 2, 3
HELLO, ANSWER, PROOF = 116, 104, 36
MAGIC = b"\xa5muster\n"
SOURCE_FILE, SOURCE_USER = 1, 5  # flags: there is a secret, and where it is from


def key_of(text):
    """The key of a secret file with this text: HKDF of src/auth/secret.c."""
    extracted = hmac.new(b"muster secret 1", text.strip().encode(), hashlib.sha256).digest()
    return hmac.new(extracted, b"\x01", hashlib.sha256).digest()


def mac(key, label, *parts):
    return hmac.new(key, label.encode() + b"\0" + b"".join(parts), hashlib.sha256).digest()


def packed(address):
    """An address as 16 bytes, and the port."""
    host, port = address[:2]
    if ":" in host:
        return socket.inet_pton(socket.AF_INET6, host) + struct.pack(">H", port)
    return bytes(10) + b"\xff\xff" + socket.inet_aton(host) + struct.pack(">H", port)


def receive(s, n):
    """n bytes, or fewer if the connection ends."""
    data = b""
    while len(data) < n:
        try:
            more = s.recv(n - len(data))
        except ConnectionError:
            break
        if not more:
            break
        data += more
    return data


def hello(s, role=STORE, flags=SOURCE_FILE, context=bytes(36), addresses=None):
    addresses = addresses or packed(s.getsockname()) + packed(s.getpeername())
    return MAGIC + bytes([1, role, flags, 0]) + addresses + os.urandom(32) + context


def prove(key, said, answer):
    return bytes(4) + mac(key, "muster handshake 1, client", said, answer)


def authenticate(s, key, role=STORE, context=bytes(36)):
    """The verdict of the server; b"" if it has closed the connection before. Checks the server's MAC."""
    said = hello(s, role, context=context)
    s.sendall(said)
    answer = receive(s, ANSWER)
    if len(answer) < ANSWER:
        return answer
    if answer[-32:] != mac(key, "muster handshake 1, server", said, answer[:-32]):
        s.sendall(b"\x04" + bytes(35))
        return b"the secrets differ"
    s.sendall(prove(key, said, answer))
    return receive(s, 2)
