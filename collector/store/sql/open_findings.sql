-- The findings that are open. No parameters. Rows: finding_id, kind, gpu_id, holder_id (NULL: nobody's).
SELECT finding_id, kind, gpu_id, holder_id FROM findings WHERE closed_at IS NULL;
