"""The pairs of RabbitMQ that ./dev test plays; see test_pairs.py."""

import pytest

from pair_gate import bench, param, play  # noqa: F401
from campaign import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.mark.parametrize("pair", param(
    "rabbitmq:kill_server,rabbitmq:freeze_server_long,rabbitmq:silence_answers,"
    "rabbitmq:close_connections,rabbitmq:delete_queue,rabbitmq:memory_alarm"))
def test_rabbitmq_keeps_its_promises_through(bench, pair):
    play(bench, pair)
