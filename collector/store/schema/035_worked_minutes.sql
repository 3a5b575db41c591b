-- In which of its minutes a holder worked on a GPU: what an hour's sums cannot tell, in a 60th of the rows that can.
-- A row a (UTC hour, GPU, holder), made and removed with rollup_1h; times between two spells of work are read from it.
--
-- worked, known   bit n is the n-th minute of the hour: there was work in it; its state was known all the time
-- No row: nobody held it, or a minute was measured or known in part, or an older version made the hour; read its minutes.
CREATE TABLE worked_minutes (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    worked BIGINT NOT NULL,
    known BIGINT NOT NULL
);
