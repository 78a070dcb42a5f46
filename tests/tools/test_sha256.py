"""SHA-256, HMAC and HKDF of src/auth give the same bytes as OpenSSL, through Python's hashlib and hmac."""

import hashlib
import hmac
import random
import subprocess
import unittest

from harness import DEADLINE, PROGRAMS, main

SEED = random.SystemRandom().getrandbits(32)


def hkdf(salt, secret, info, length):
    key = hmac.digest(salt or bytes(32), secret, "sha256")
    out, part = b"", b""
    while len(out) < length:
        part = hmac.digest(key, part + info + bytes([len(out) // 32 + 1]), "sha256")
        out += part
    return out[:length]


class Random(unittest.TestCase):
    def test_random_inputs(self):
        source = random.Random(SEED)
        lines, wanted = [], []

        def text(data):
            return data.hex() or "-"

        def add(line, result):
            lines.append(line + "\n")
            wanted.append(result.hex())

        lengths = [*range(300), *(source.randrange(1 << source.randrange(1, 16)) for _ in range(300))]
        for length in lengths:
            data = source.randbytes(length)
            key = source.randbytes(source.choice([0, 1, 31, 32, 63, 64, 65, 200, source.randrange(300)]))
            add(f"hash {text(data)}", hashlib.sha256(data).digest())
            add(f"hmac {text(key)} {text(data)}", hmac.digest(key, data, "sha256"))
        for _ in range(100):
            salt, secret, info = (source.randbytes(source.randrange(150)) for _ in range(3))
            length = source.choice([1, 16, 31, 32, 33, 64, 255 * 32, source.randrange(1, 500)])
            add(f"hkdf {text(salt)} {text(secret)} {text(info)} {length}", hkdf(salt, secret, info, length))
        process = subprocess.run([PROGRAMS / "sha256_pipe"], input="".join(lines), capture_output=True, text=True, timeout=DEADLINE, check=True)
        for line, got, right in zip(lines, process.stdout.splitlines(), wanted, strict=True):
            self.assertEqual(got, right, f"seed {SEED}: {line[:200]}")


if __name__ == "__main__":
    main()
