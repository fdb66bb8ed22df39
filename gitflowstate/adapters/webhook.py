"""The channel that posts signed JSON to a URL of the user's.

Rules: the connection goes to an address that was judged, whatever the name resolves to a moment
later (hazard K1); no redirect and no proxy is followed; of the answer only its status and
Retry-After are looked at. The delivery id is the same whenever the same notice is sent, so that the
receiver can drop what comes twice. No error names the URL, which may be a secret.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Callable, Collection
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gitflowstate import __version__, addresses
from gitflowstate.adapters import answers
from gitflowstate.adapters.deadline import Deadline
from gitflowstate.addresses import Network, Place
from gitflowstate.delivery import NotSent, Refused, Unauthorised, Unknown
from gitflowstate.kinds import Time
from gitflowstate.ports import Capabilities, Clock, Found, Notice

if TYPE_CHECKING:
    import ssl

    import httpx2

TIMEOUT_S = 10.0
LIMIT = 60_000
_UNAUTHORISED = 401

Resolve = Callable[[str, int], list[str]]


class WebhookChannel:
    """Posts each notice to one place; an edit posts the new text with the id of the message."""

    capabilities = Capabilities(edits=True, searches=False, limit=LIMIT, idempotent=True)

    def __init__(
        self,
        name: str,
        place: Place,
        secret: str,
        clock: Clock,
        *,
        variable: str = "GFS_WEBHOOK_SECRET",
        allowed: Collection[Network] = (),
        timeout_s: float = TIMEOUT_S,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Keep what is needed; `variable` held the secret, `tls` is for an authority of one's own.

        Nothing is sent yet.
        """
        self.name = name
        self._place = place
        self._secret = secret.encode("utf-8", "surrogateescape")
        self._variable = variable
        self._clock = clock
        self._allowed = allowed
        self._timeout_s = timeout_s
        self._resolve = resolve or resolved
        self._tls = tls
        self._client: httpx2.Client | None = None

    def post(self, notice: Notice) -> str:
        """Send a notice; its delivery id is the id of the message from now on."""
        message = delivery_id(self.name, notice)
        self._send(notice, message)
        return message

    def edit(self, id: str, notice: Notice) -> str:  # noqa: A002  the word of the protocol
        """Send what the message with the id says now."""
        self._send(notice, id)
        return id

    def digest(self, id: str) -> None:  # noqa: A002  as above
        """Return nothing: its receiver tells nothing."""

    def find(self, notice: Notice, since: Time | None) -> list[Found]:
        """Return nothing: a webhook cannot be asked."""
        del notice, since
        return []

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, notice: Notice, message: str) -> None:
        body = document(self.name, notice, message)
        headers = self._headers(delivery_id(self.name, notice), body)
        for address in self._addresses():
            try:
                status, wait = self._exchanged(address, headers, body)
            except NotSent:
                continue  # the name has another address, perhaps
            if answers.is_sent(status):
                return
            if status == _UNAUTHORISED:
                raise Unauthorised(self._variable)
            answers.refuse(status, wait, self._clock.now(), "the webhook")
        raise NotSent("the webhook cannot be reached", hint="what is owed is sent by a later run")

    def _headers(self, delivery: str, body: bytes) -> dict[str, str]:
        moment = int(datetime.fromisoformat(self._clock.now()).timestamp())
        return {
            "Host": self._place.authority,
            "Content-Type": "application/json",
            "User-Agent": f"gitflowstate/{__version__}",
            "Gfs-Delivery": delivery,
            "Gfs-Timestamp": str(moment),
            "Gfs-Signature": signature(self._secret, moment, body),
        }

    def _addresses(self) -> list[str]:
        """Return the addresses of the place, each of them judged."""
        literal = self._place.literal
        if literal is not None:
            found = [str(literal)]
        else:
            try:
                found = self._resolve(self._place.host, self._place.port)
            except OSError:
                raise NotSent(
                    "the name of the webhook cannot be resolved",
                    hint="what is owed is sent by a later run",
                ) from None
        if not all(addresses.is_permitted(each, self._allowed) for each in found):
            raise Refused(
                "the webhook has an address that is not public and not in allow_addresses"
            )
        return list(dict.fromkeys(found))

    def _exchanged(
        self, address: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, str | None]:
        """Send the request to one address; return the status of the answer and its Retry-After.

        Raises NotSent when no connection came about, Unknown when no answer did.
        """
        import httpx2  # noqa: PLC0415  start-up: other channels need none

        client = self._opened()  # before time runs: its certificates are read
        try:
            with Deadline(self._timeout_s) as deadline:
                extensions: dict[str, Any] = {"trace": deadline.trace}
                if self._place.literal is None:
                    extensions["sni_hostname"] = self._place.host.rstrip(".")
                request = client.build_request(
                    "POST",
                    self._place.at(address),
                    headers=headers,
                    content=body,
                    extensions=extensions,
                )
                answer = client.send(request, stream=True)
                answer.close()  # unread: nothing in it is of use
                return answer.status_code, answer.headers.get("Retry-After")
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise NotSent("the webhook cannot be reached") from None
        except httpx2.HTTPError:
            raise Unknown(
                "no answer came from the webhook: the message may have arrived or not",
                hint="the next run sends it again, with the same delivery id",
            ) from None

    def _opened(self) -> httpx2.Client:
        import httpx2  # noqa: PLC0415  as above

        if self._client is None:
            self._client = httpx2.Client(
                verify=self._tls or True,
                trust_env=False,  # neither a proxy nor a password from ~/.netrc
                follow_redirects=False,
                timeout=self._timeout_s,
                # A kept connection that its server has closed meanwhile loses a message's answer.
                limits=httpx2.Limits(max_keepalive_connections=0),
            )
        return self._client


def resolved(host: str, port: int) -> list[str]:
    """Return the addresses of a name. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def delivery_id(channel: str, notice: Notice) -> str:
    """Return the id that a notice has whenever it is sent."""
    parts = (channel, notice.flow, notice.kind, str(notice.revision), notice.text)
    return sha256("\0".join(parts).encode()).hexdigest()


def document(channel: str, notice: Notice, message: str) -> bytes:
    """Return the JSON that is posted: the same bytes for the same notice."""
    whole = {
        "schema_version": 1,
        "delivery": delivery_id(channel, notice),
        "message": message,
        "channel": channel,
        "flow": notice.flow,
        "kind": notice.kind,
        "revision": notice.revision,
        "title": notice.title,
        "text": notice.text,
    }
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def signature(secret: bytes, moment: int, body: bytes) -> str:
    """Return what proves that the body and its time come from a holder of the secret."""
    return f"v1={hmac.new(secret, f'{moment}.'.encode() + body, sha256).hexdigest()}"
