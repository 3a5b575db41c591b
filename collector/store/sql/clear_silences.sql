-- Takes back the gaps that nodes' silence made, now that they were heard: what each measured meanwhile comes with it, and a
-- hole in that is a gap of its own. Nodes are the rows of marks. Parameters: heard.
DELETE FROM gaps
WHERE source = 'nodes' AND node IN (SELECT node FROM marks) AND starts_with(reason, 'node ' || node || $heard);
