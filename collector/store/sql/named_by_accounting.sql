-- The jobs of those holders (INTEGER[] holder_ids) whose user only accounting told.
SELECT job FROM holders WHERE user_from = 'accounting' AND holder_id IN (SELECT unnest($holder_ids));
