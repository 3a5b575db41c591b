-- node_marks.waiting, waits_ms   ticks of its spool that the head had not received when it pushed last, and how old the
--                               oldest of them was. NULL: a node of 0.1.0, which doesn't say
ALTER TABLE node_marks ADD COLUMN waiting BIGINT;
ALTER TABLE node_marks ADD COLUMN waits_ms BIGINT;
