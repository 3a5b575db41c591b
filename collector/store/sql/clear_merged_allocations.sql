-- Removes the stored intervals that the temporary table merged_allocations holds anew. No parameters.
DELETE FROM allocations USING (SELECT DISTINCT gpu_id, holder_id, share, source FROM merged_allocations) AS anew
WHERE allocations.gpu_id = anew.gpu_id AND allocations.holder_id = anew.holder_id
  AND allocations.share = anew.share AND allocations.source = anew.source;
