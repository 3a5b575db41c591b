-- Takes out all nodes of a workload manager's cluster. Parameters: manager, cluster.
DELETE FROM manager_nodes WHERE manager = $manager AND cluster = $cluster;
