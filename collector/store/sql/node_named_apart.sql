-- Calls a node by its name and its cluster, for nodes of another cluster have the name too; what the machine itself is
-- called is kept as its host. Parameters: host, cluster, node (what it is called from now on).
UPDATE gpus SET host = $host, node = $node WHERE coalesce(host, node) = $host AND cluster = $cluster;
