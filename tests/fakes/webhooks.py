"""A receiver of webhooks as a careful user writes one: it verifies, and drops what comes twice."""

import hashlib
import hmac
import json

from fakes.loopback import Answer, Loopback, Received


class Receiver(Loopback):
    """Keeps the newest text of each message by its id."""

    def __init__(self, secret: str, tls=None) -> None:
        super().__init__(tls)
        self.secret = secret.encode()
        self.deliveries: dict[str, dict] = {}
        self.repeats = 0
        self.messages: dict[str, dict] = {}

    def serve(self, request: Received) -> Answer:
        moment = request.headers.get("Gfs-Timestamp", "")
        signed = hmac.new(self.secret, moment.encode() + b"." + request.body, hashlib.sha256)
        told = request.headers.get("Gfs-Signature", "")
        if not hmac.compare_digest(told, f"v1={signed.hexdigest()}"):
            return Answer(401)
        document = json.loads(request.body)
        if document["delivery"] != request.headers.get("Gfs-Delivery"):
            return Answer(400)
        if document["delivery"] in self.deliveries:
            self.repeats += 1
            return Answer(200)
        self.deliveries[document["delivery"]] = document
        self.messages[document["message"]] = document
        return Answer(204)


class Phone(Loopback):
    """A chat service behind apprise's `json://`."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[dict] = []

    def serve(self, request: Received) -> Answer:
        self.messages.append(json.loads(request.body))
        return Answer(200)
