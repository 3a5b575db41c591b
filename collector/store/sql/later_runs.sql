-- The jobs whose id was another one's before, and whose they are (collector.store.runs), in the order in which they came.
SELECT job, user_name FROM holders WHERE regexp_full_match(job, '.+@[0-9]{1,12}') ORDER BY holder_id;
