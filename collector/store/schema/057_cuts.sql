-- A board that is cut anew into MIG instances, or made whole again, is another row from then on: the hours before keep
-- the share that they had. The row before gives its UUID to the next one and is known by it and the time it ended.
ALTER TABLE gpus ADD COLUMN cut_of VARCHAR;      -- the UUID that this row had until the GPU was cut anew; NULL: it has it still
ALTER TABLE gpus ADD COLUMN cut_from TIMESTAMP;  -- since when it is cut as it is, a whole 30 s bin; NULL: as long as it is known
