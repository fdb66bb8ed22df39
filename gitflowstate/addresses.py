"""Owns which addresses on the network a file of the repository may make us connect to.

Rules: http and https alone, and no credentials; a host is a name, or an address in its one usual
form; only public addresses, unless they are listed. A name is judged by every address it resolves
to, and the connection goes to an address that was judged, never to the name again (hazard K1).
Pure: the caller resolves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PORTS = {"http": 80, "https": 443}
_LONGEST = 2000
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*\.?")
# Resolvers read these as numbers: 2130706433, 0x7f.1 and 017700000001 are all 127.0.0.1.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_URL = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:/?]+)(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?].*)?"
)
# Public by their numbers, yet this is where clouds answer their own machines.
_SERVICES = (IPv4Network("168.63.129.16/32"), IPv4Network("192.0.0.0/24"))
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")


class Place(NamedTuple):
    """Where a request goes: `host` without brackets, `target` with its query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Return what the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def literal(self) -> Address | None:
        """Return the address, where the host is one and no name."""
        return _literal(self.host)

    def at(self, address: str) -> str:
        """Return the URL of the same place by one of its addresses."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.target}"


def place(url: str) -> Place:
    """Return the parts of a URL. Raises ValueError with the rule it breaks, never with the URL."""
    if (
        len(url) > _LONGEST
        or not (url.isascii() and url.isprintable())
        or re.search(r'[ \\"<>]', url)
    ):
        raise ValueError(f"must be a URL of at most {_LONGEST:,} plain ASCII characters")
    if "@" in re.split(r"[/?#]", url.partition("://")[2], maxsplit=1)[0]:
        raise ValueError("must not hold a user or password")
    if "#" in url:
        raise ValueError("must not end in a #fragment")
    found = _URL.fullmatch(url)
    if found is None or found["scheme"].lower() not in PORTS:
        raise ValueError("must be a URL that begins with https:// or http://")
    scheme, port = found["scheme"].lower(), int(found["port"] or PORTS[found["scheme"].lower()])
    if not 0 < port < 65_536:  # noqa: PLR2004  TCP's
        raise ValueError("must have a port from 1 to 65535")
    target = found["target"] or "/"
    return Place(scheme, _host(found["host"]), port, target if target[0] == "/" else f"/{target}")


def _host(text: str) -> str:
    if text.startswith("["):
        address = _literal(text[1:-1])
        if not isinstance(address, IPv6Address):
            raise ValueError("must have an IPv6 address between its brackets")
        return str(address)
    if _NUMBER.fullmatch(text.rstrip(".").rpartition(".")[2]):
        if _literal(text) is None:
            raise ValueError("must write an address as four decimal numbers")
        return text
    if not _NAME.fullmatch(text):
        raise ValueError("must have a host of letters, digits, dots and hyphens")
    return text.lower()


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def network(text: str) -> Network:
    """Return an address or a network such as 10.1.0.0/16. Raises ValueError with the rule."""
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError("must be an IP address, or a network such as 10.1.0.0/16") from None


def is_permitted(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Tell whether an address may be connected to: it is public, or in one of the networks.

    An IPv4 address inside an IPv6 one is judged too, and may be the one that is listed.
    """
    found = _literal(address.partition("%")[0])
    if found is None:
        return False
    faces = [found, *_embedded(found)]
    listed = [*allowed]
    if any(face in each for face in faces for each in listed if face.version == each.version):
        return True
    return all(map(_is_public, faces))


def _is_public(address: Address) -> bool:
    """Tell whether an address is out on the Internet and stands for one machine."""
    if isinstance(address, IPv6Address):
        if address in _NAT64:  # how a network without IPv4 names the hosts that have nothing else
            return _is_public(_low(address))
        if address.is_site_local:
            return False
    special = address.is_multicast or address.is_reserved
    return address.is_global and not special and not any(address in each for each in _SERVICES)


def _embedded(address: Address) -> list[Address]:
    """Return the IPv4 addresses that a gateway or the system itself would make of an IPv6 one."""
    if isinstance(address, IPv4Address):
        return []
    if address in _NAT64 or address in _COMPATIBLE:
        return [_low(address)]
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    return [each for each in found if each is not None]


def _low(address: IPv6Address) -> IPv4Address:
    return IPv4Address(int(address) & 0xFFFF_FFFF)
