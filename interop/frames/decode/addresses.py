"""Addresses of videos and streams: the schemes that are allowed, what FFmpeg may use for each, and limits of waits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path

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


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
"""The beginning of an address; as a Path it has one slash. Windows has drives of one letter."""
_ADDRESS = re.compile(_SCHEME.pattern + r"[^\s'\"<>]*")
"""An address in other text."""
_SERVER = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
"""A server's name or number, and its port."""
_MASK = "***"


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
    >>> patient = fb.video.StreamOptions(stall=10, attempts=None, seconds=3600)
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


def plain_address(source: str | Path) -> str:
    """A path as it is, or an address with its scheme in lower case, as FFmpeg and OpenCV know it."""
    text = str(source)
    scheme = scheme_of(text)
    return scheme + text[len(scheme) :]


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


def masked_address(source: str | Path) -> str:
    """An address without what may be secret in it, for messages, logs and files. Another text is as it was, but for the
    addresses in it.

    Masked are user and password, all values of the query, the fragment, values in the path (``/key=value/``), and of
    RTMP what follows the application's name, which is the stream's key. The rest of the path is not.

    Parameters
    ----------
    source : str or Path
        An address, a path, or a text, such as the message of an error.

    Returns
    -------
    str
        The same text with ``***`` for each secret. A masked address is its own masked address.

    Examples
    --------
    >>> fb.video.masked_address("rtsp://me:secret@192.168.1.20/door?token=hidden&size=2")
    'rtsp://***@192.168.1.20/door?token=***&size=***'
    >>> fb.video.masked_address("rtmp://example.com/live/key")
    'rtmp://example.com/live/***'
    """
    text = str(source)
    if ":/" not in text:
        return text
    return _masked(text) if _SCHEME.match(text) else _ADDRESS.sub(lambda found: _masked(found[0]), text)


def is_loopback(host: str) -> bool:
    """Say whether a server at ``host`` is reached by this machine alone.

    No name but "localhost" is looked up, so that no page of another site can make up a name for this machine.

    Parameters
    ----------
    host : str
        A name or number, with or without a port; a number of IPv6 with a port is in brackets.

    Examples
    --------
    >>> [fb.video.is_loopback(host) for host in ("localhost:8080", "127.0.0.1", "[::1]:80", "0.0.0.0", "example.com")]
    [True, True, True, False, False]
    """
    found = _SERVER.fullmatch(host)
    name = (found[1] if found else host).strip("[]")
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _masked(address: str) -> str:
    """An address, which the whole text is, without secrets."""
    found = _SCHEME.match(address)
    assert found is not None
    scheme = found[1].lower()
    if scheme == "file":
        return address
    authority, path, query, fragment = _parts(address[found.end() :])
    user, at, server = authority.rpartition("@")
    if not _SERVER.fullmatch(server):  # a password with a slash in it, or brackets that are no address of IPv6
        return found[0] + _MASK
    masked = f"{found[0]}{_MASK if user else ''}{at}{server}"
    masked += _masked_application(path) if scheme.startswith("rtmp") else _masked_path(path)
    if query is not None:
        masked += "?" + "&".join(map(_masked_field, query.split("&")))
    return masked if fragment is None else f"{masked}#{_MASK}"


def _parts(rest: str) -> tuple[str, str, str | None, str | None]:
    """The server with its user, the path, the query and the fragment of what follows an address's "://"."""
    rest, hash_, fragment = rest.partition("#")
    rest, mark, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    return authority, slash + path, query if mark else None, fragment if hash_ else None


def _masked_path(path: str) -> str:
    path = re.sub(r"(//)[^/]*@", rf"\1{_MASK}@", path)  # an address in the path
    return re.sub(r"=[^/;,]+", f"={_MASK}", path)


def _masked_application(path: str) -> str:
    """A path of RTMP: /application/key, or a key alone. Options of FFmpeg behind a space have keys as well."""
    words = path.split(maxsplit=1)
    application, _, key = (words[0] if words else "").lstrip("/").partition("/")
    masked = f"/{application}/{_MASK}" if key else f"/{_MASK}" if application else path
    return f"{masked} {_MASK}" if len(words) > 1 else masked


def _masked_field(field: str) -> str:
    """A field of a query. One without a value, as the end of a text in base 64, may be a secret itself."""
    name, _, value = field.partition("=")
    return f"{name}={_MASK}" if value.strip("=") else _MASK if field else ""
