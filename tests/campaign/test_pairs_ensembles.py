"""The pairs of etcd and ZooKeeper that ./dev test plays; see test_pairs.py."""

import pytest

from pair_gate import bench, param, play  # noqa: F401
from campaign import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.mark.parametrize("pair", param(
    "etcd:freeze_server_long,etcd:lose_answers,etcd:revoke_holders,"
    "etcd:restore_etcd,etcd:fill_etcd,etcd:kill_leader,etcd:cut_off_leader"))
def test_etcd_keeps_its_promises_through(bench, pair):
    play(bench, pair)


@pytest.mark.parametrize("pair", param(
    "zookeeper:kill_clients,zookeeper:cut_each,zookeeper:remove_nodes,"
    "zookeeper:end_sessions,zookeeper:freeze_leader"))
def test_zookeeper_keeps_its_promises_through(bench, pair):
    play(bench, pair)
