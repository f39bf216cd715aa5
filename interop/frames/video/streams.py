"""Addresses of videos and streams: the schemes that are allowed, what FFmpeg may use for each, and limits of waits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import SourceError

SCHEMES = ("http", "https", "rtsp", "rtsps", "rtmp", "rtmps", "srt")
"""Schemes of addresses that are opened if nobody says more."""
_WEB = "http,https,tcp,tls,crypto"
PROTOCOLS = {
    "": "file", "http": _WEB, "https": _WEB,
    "rtsp": "rtsp,rtp,srtp,udp,tcp,tls", "rtsps": "rtsp,rtp,srtp,udp,tcp,tls",
    "rtmp": "rtmp,tcp", "rtmps": "rtmps,rtmp,tcp,tls", "srt": "srt", "udp": "udp", "rtp": "rtp,udp", "tcp": "tcp",
}  # fmt: skip
"""Protocols that FFmpeg may use, by the scheme of an address: a file must not lead to the network, nor the reverse."""


_SECRETS = re.compile(r"(?i)([?&](?:passphrase|password|pwd|token|key|signature)=)[^&]*")
"""Fields of an address that nobody but the server is to see."""


@dataclass(frozen=True)
class StreamOptions:
    """Rules of addresses: which are opened, and how long a live stream is waited for.

    Attributes
    ----------
    schemes : tuple of str
        Schemes of addresses that are allowed: by default http, https, rtsp, rtsps, rtmp, rtmps and srt. "udp", "rtp"
        and "tcp" are known as well.
    stall : float
        Seconds without a packet after which a connection counts as lost.
    attempts : int or None
        Attempts to connect again, each time that the stream is lost; None for any number.
    seconds : float or None
        Seconds of these attempts; None for any. The pauses between two attempts grow from half a second to ten.

    Examples
    --------
    >>> patient = fb.StreamOptions(stall=10, attempts=None, seconds=3600)
    >>> patient.schemes[:2]
    ('http', 'https')
    """

    schemes: tuple[str, ...] = SCHEMES
    stall: float = 5.0
    attempts: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        unknown = [scheme for scheme in self.schemes if scheme not in PROTOCOLS or not scheme]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is no scheme of streams: known are {', '.join(filter(None, PROTOCOLS))}")
        if not 0 < self.stall <= 600:
            raise ValueError(f"stall is {self.stall:g} seconds: more than 0, and at most 600")


def scheme_of(source: str | Path) -> str:
    """The scheme of an address, "" for the path of a file."""
    text = str(source)
    return text.partition("://")[0].lower() if "://" in text else ""


def checked_scheme(source: str | Path, name: str, options: StreamOptions) -> str:
    """The scheme of an address, or "" of a file. Raises SourceError if it is not allowed."""
    scheme = scheme_of(source)
    if scheme and scheme not in options.schemes:
        more = " (StreamOptions.schemes allows more)" if scheme in PROTOCOLS else ""
        raise SourceError(
            f"{name} cannot be opened: addresses begin with one of {', '.join(options.schemes)}, not '{scheme}'{more}"
        )
    return scheme


def shown(source: str | Path) -> str:
    """A path or an address for people and files: without the secrets that an address may have."""
    text = str(source)
    if not scheme_of(text):
        return text
    try:
        password = urlsplit(text).password
    except ValueError:  # brackets that are no address of IPv6
        return text.partition("://")[0] + "://..."
    text = text.replace(f":{password}@", ":***@", 1) if password else text
    return _SECRETS.sub(r"\1***", text)
