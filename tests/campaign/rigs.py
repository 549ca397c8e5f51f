"""All rigs, by store and shape."""

import rigs_databases as databases
import rigs_services as services

RIGS = {(rig.name, rig.shape): rig for rig in (
    databases.PostgresRig, databases.PostgresClocked,
    databases.PostgresReplicated, databases.PostgresSynchronous,
    databases.MysqlRig, databases.MysqlClocked, databases.MysqlReplicated,
    databases.MysqlSynchronous, services.EtcdRig, services.EtcdSmall,
    services.EtcdMembers, services.ZookeeperRig, services.ZookeeperMembers,
    services.RabbitmqRig)}
