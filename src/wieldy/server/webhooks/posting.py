"""Send one message, and say what follows from the answer."""

import random
import time
from collections.abc import Sequence

from wieldy.core.network.addresses import Reach, Resolve
from wieldy.core.network.http_client import Client, HttpRequest, HttpResponse
from wieldy.core.task import time_limit
from wieldy.core.visible_text import visible_line
from wieldy.store.outbox.outbox import Delivery, SendResult

from .messages import TEST_KIND
from .signatures import sign_message
from .webhook import Webhook

# Seconds between one attempt and the next; together a little more than a day.
PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14_400.0, 28_800.0, 43_200.0)
_MAX_PAUSE = 43_200.0
# A receiver has this long to answer, whatever it does meanwhile.
SECONDS = 20.0
_MAX_ERROR = 300
GONE = 410


class Postman:
    """Sends messages over connections of its own. Near addresses are refused after name resolution.

    A webhook whose address may be near has a client of its own kind, so that it opens no way for
    the others.
    """

    def __init__(
        self,
        seconds: float = SECONDS,
        pauses: Sequence[float] = PAUSES,
        resolve: Resolve | None = None,
    ) -> None:
        self._seconds = seconds
        self._pauses = pauses
        self._far = Client(seconds, Reach(resolve))
        self._near = Client(seconds, Reach(resolve, anywhere=True))

    async def send(self, webhook: Webhook, delivery: Delivery) -> SendResult:
        """Send a message once. It never raises."""
        client = self._near if webhook.allow_private else self._far
        try:
            async with time_limit(self._seconds):
                answer = await client.notify(_make_request(webhook, delivery))
        except TimeoutError:
            return self._fail(delivery, None, f"it did not answer within {self._seconds:g} s")
        except Exception as error:
            # The network and its libraries may raise anything, and the message is tried again.
            return self._fail(delivery, None, str(error) or type(error).__name__)
        return self._read_answer(delivery, answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._far.close()
        await self._near.close()

    def _read_answer(self, delivery: Delivery, answer: HttpResponse) -> SendResult:
        if 200 <= answer.status < 300:
            return SendResult("delivered", answer.status)
        said = f"it answered {answer.status} {visible_line(answer.reason, 80)}".strip()
        if answer.status == GONE:
            return SendResult("failed", GONE, f"{said}: it wants no more messages")
        if 300 <= answer.status < 400:
            said += ", which is not followed. Write the new address into the file"
        return self._fail(delivery, answer.status, said, answer.retry_after or 0.0)

    def _fail(
        self, delivery: Delivery, status: int | None, error: str, wait: float = 0.0
    ) -> SendResult:
        """What follows from a failed attempt: another one later, or none."""
        error = visible_line(error, _MAX_ERROR)
        if delivery.kind == TEST_KIND or delivery.attempts > len(self._pauses):
            return SendResult("failed", status, error)
        # Receivers that failed together must not be tried again all at once.
        pause = self._pauses[max(0, delivery.attempts - 1)] * random.uniform(0.8, 1.2)
        return SendResult("waiting", status, error, max(pause, min(wait, _MAX_PAUSE)))


def _make_request(webhook: Webhook, delivery: Delivery) -> HttpRequest:
    body, now = delivery.body.encode(), int(time.time())
    signatures = (sign_message(key, delivery.id, now, body) for key in webhook.read_keys())
    headers = {
        "content-type": "application/json",
        "webhook-id": delivery.id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(signatures),
    }
    return HttpRequest("POST", webhook.url, headers, body)
