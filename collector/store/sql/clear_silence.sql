-- Takes back the gaps that a node's silence made, now that it was heard: what it measured meanwhile comes with it, and a
-- hole in that is a gap of its own. Parameters: node, pattern (of the reason).
DELETE FROM gaps WHERE source = 'nodes' AND node = $node AND reason LIKE $pattern;
