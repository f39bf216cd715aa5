"""Certificates of servers behind https, rtsps and rtmps: FFmpeg checks them, as PyAV before 19 does not by itself.

A program's own choice is the file of certificates that the variable SSL_CERT_FILE names, as for Python's other clients.
"""

from __future__ import annotations

import functools
import os
import socket
import ssl
import sys
from urllib.parse import urlsplit

PORTS = {"https": 443, "rtsps": 322, "rtmps": 443}
"""The port of a server, by the scheme of addresses that are encrypted."""
_FILES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)  # fmt: skip
"""The places of trusted certificates on Debian, Fedora, openSUSE and Alpine."""
WHEELS_FILE = "/etc/pki/tls/cert.pem"
"""The place that PyAV's wheels for Linux know by themselves."""


def trusted_file() -> str | None:
    """The file with the certificates that are trusted; None if the TLS library knows them itself."""
    chosen = os.environ.get("SSL_CERT_FILE")
    if chosen or sys.platform != "linux":
        return chosen or None
    return _system_s_file()


@functools.cache
def _system_s_file() -> str | None:
    files = (ssl.get_default_verify_paths().cafile, *_FILES)
    return next((file for file in files if file and os.path.exists(file)), None)


def tls_options(scheme: str) -> dict[str, str]:
    """FFmpeg's options for an address of that scheme: a server's certificate has to be trusted."""
    if scheme not in (*PORTS, "http"):  # http may lead to https
        return {}
    file = trusted_file()
    return {"tls_verify": "1", **({"ca_file": file} if file else {})}


def connect(address: str, ports: dict[str, int], seconds: float) -> socket.socket:
    """A connection to an address's server; ``ports`` are those of addresses without one.

    Raises OSError: ssl.SSLCertVerificationError if its certificate is not trusted.
    """
    parts = urlsplit(address)
    host, port = parts.hostname or "", parts.port or ports[parts.scheme]
    connection = socket.create_connection((host, port), timeout=seconds)
    if parts.scheme not in PORTS:
        return connection
    try:
        context = ssl.create_default_context(cafile=trusted_file())
        return context.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def why_untrusted(address: str, seconds: float) -> str:
    """The reason why a server's certificate is not trusted; "" if it is, or nobody can tell."""
    try:
        if urlsplit(address).scheme in PORTS:
            connect(address, PORTS, seconds).close()
    except ssl.SSLCertVerificationError as error:
        return untrusted(error)
    except (OSError, ValueError):
        pass
    return ""


def untrusted(error: ssl.SSLCertVerificationError) -> str:
    """An error in words that say what to do."""
    return (
        f"its certificate is not trusted ({error.verify_message}). If it is the server's own, name a file with it in "
        "SSL_CERT_FILE"
    )
