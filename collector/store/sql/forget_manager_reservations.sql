-- Takes out the reservations of one cluster of a workload manager. Parameters: manager, cluster.
DELETE FROM manager_reservations WHERE manager = $manager AND cluster = $cluster;
