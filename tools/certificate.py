"""A certificate for a server on this machine, made by openssl and gone after use."""

from __future__ import annotations

import contextlib
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Tls", "certified"]


class Tls(NamedTuple):
    """What a server shows, and a client believes."""

    key: str
    certificate: str

    def of_server(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def of_client(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.certificate)


@contextlib.contextmanager
def certified() -> Iterator[Tls]:
    """A key, and what it is certified with, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as directory:
        made = Tls(f"{directory}/key.pem", f"{directory}/certificate.pem")
        names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", made.key, "-out", made.certificate]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
        subprocess.run(command, check=True, capture_output=True)
        yield made
