"""The routes of notifications: the recent ones, a retry, a test of a channel."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...actors.agent.agent import Agent
from ...actors.notify.delivery import ChannelDelivery
from ..contract import system_shapes as s
from ..http import headers, query
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from .views import timestamp


@attrs.frozen
class NotificationRoutes:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {
            "listNotifications": self.list,
            "retryNotification": self.retry,
            "testChannel": self.test,
        }

    async def list(self, request: HttpRequest) -> Reply:
        query.known(request.args, ("limit",))
        limit = query.limit(request.args)
        found = await self.agent.acting_as(request.principal).notifications()
        return reply(s.NotificationList(notifications=[_view(each) for each in found[:limit]]))

    async def retry(self, request: HttpRequest, notification: str) -> Reply:
        headers.post_key(request)
        await request.json(())
        found = await self.agent.acting_as(request.principal).retry_notification(notification)
        return reply(s.NotificationBody(notification=_view(found)))

    async def test(self, request: HttpRequest) -> Reply:
        body = await request.json(("channel",))
        channel = body.get("channel")
        if not isinstance(channel, str):
            raise query.invalid("channel", "channel must be a string")
        return reply(s.TestedChannel(id=await self.agent.acting_as(request.principal).test_channel(channel)))


def _view(delivery: ChannelDelivery) -> s.Notification:
    return s.Notification(
        id=delivery.id,
        channel=delivery.channel,
        type=delivery.kind,
        at=timestamp(delivery.at),
        state=delivery.state,
        attempts=delivery.attempts,
        next_attempt=timestamp(delivery.next) if delivery.state == "pending" else None,
        why=delivery.why or None,
        conversation_id=delivery.stream or None,
        approval_id=delivery.approval or None,
    )
