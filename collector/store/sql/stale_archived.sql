-- Copies of files that were sealed anew while they were still on this disk: the newer file has all their rows.
-- No parameters. Rows: key.
SELECT "key" FROM archived ANTI JOIN sealed USING (path, sealed_at) WHERE is_here;
