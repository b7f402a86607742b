"""A model behind a provider's API."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from wieldy.core.bounded_json import MAX_WRAPPED, dump_json
from wieldy.core.loop_bridge import run_on_loop
from wieldy.core.streaming import Channel, iterate_pushed
from wieldy.wire.answer_content import make_encodable
from wieldy.wire.stream_events import Event

from .api import Api
from .connections import connections
from .exchange import Exchange
from .model import ModelEvent, ModelRequest, Reply
from .model_errors import ModelRefused
from .request_body import NoTools
from .settings import ModelSettings, same_server
from .token_estimate import check_length


class RemoteModel:
    """A model of one provider, reached over its SDK. Make one with `find_model`."""

    # The time of silence is counted from the moment a connection is free, which only the
    # model itself knows.
    keeps_limits = True

    def __init__(self, api: Api, model: str, settings: ModelSettings) -> None:
        self._api = api
        self._model = model
        self._settings = settings
        self._official = same_server(settings.base_url, api.address)

    @property
    def name(self) -> str:
        """The model's name, as `provider:model`."""
        return f"{self._api.name}:{self._model}"

    @property
    def context_window(self) -> int | None:
        """How many tokens a request may have, or None if the settings don't say."""
        return self._settings.context_window

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def render(self, request: ModelRequest) -> dict[str, Any]:
        """The body of the request, exactly as it would be sent."""
        options = {**self._settings.options, **request.options}
        whole = ModelRequest(request.turns, request.tools, options, request.output_schema)
        try:
            body = self._api.write(self._model, whole, self._official)
        except ValueError as error:
            raise ModelRefused(self.name, str(error)) from error
        # A text with a lone surrogate can't be encoded, and so could not be sent.
        sent: dict[str, Any] = make_encodable(body)
        return sent

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Send the request and yield the events of the answer; the last item is the `Reply`.

        Closing the iterator ends the request.

        Raises:
            ContextTooLong: the messages don't fit the context; nothing was sent.
            ModelUnavailable: there is no answer, or it broke off; later there may be one.
            ModelRefused: the provider won't answer this request.
            ModelAnswerTooLarge: the answer outgrew its limit.
        """
        body = self.render(request)
        self._check_body(body)

        async def converse(channel: Channel) -> Reply:
            here = asyncio.get_running_loop()

            def push(events: list[Event]) -> None:
                here.call_soon_threadsafe(_push_all, channel, events)

            tools = request.tools or NoTools()
            work = Exchange(self._api, self._model, self._settings, body, tools, push)
            return await run_on_loop(connections().home, work.run)

        async for item in iterate_pushed(converse):
            yield item

    def _check_body(self, body: dict[str, Any]) -> None:
        try:
            dump_json(body, MAX_WRAPPED, allow_nan=False)
        except (TypeError, ValueError) as error:
            told = f"the request can't be written as JSON: {error}"
            raise ModelRefused(self.name, told) from error
        check_length(self.name, body, self.context_window)
        settings = self._settings
        if settings.api_key is None and self._official and not settings.headers:
            variable = self._api.key_variables[0]
            raise ModelRefused(self.name, f"there is no key. Pass api_key=, or set {variable}.")


def _push_all(channel: Channel, events: list[Event]) -> None:
    for event in events:
        channel.push(event)
