-- Records a look at a workload manager. Parameters: at_ms (UTC ms), manager, cluster, took_ms, running, pending,
-- nodes, gpus, given_gpus, doubted_nodes.
INSERT INTO manager_looks
VALUES (
    epoch_ms(CAST($at_ms AS BIGINT)), $manager, $cluster, $took_ms, $running, $pending, $nodes, $gpus, $given_gpus,
    $doubted_nodes);
