-- Which node that pushes each GPU was last on, and when the node was last heard (UTC ms). No parameters.
SELECT g.uuid, g.node, epoch_ms(m.heard_ts) FROM gpus AS g JOIN node_marks AS m USING (node);
