-- Removes findings of imported pasts that others stand for. Parameter: finding_ids (INTEGER[]).
DELETE FROM findings WHERE of_past AND finding_id IN (SELECT unnest(CAST($finding_ids AS INTEGER[])));
