-- Notes whose each process of the Arrow table "incoming" is. Columns: process_id, holder_id.
UPDATE processes SET holder_id = incoming.holder_id
FROM incoming
WHERE processes.process_id = incoming.process_id;
