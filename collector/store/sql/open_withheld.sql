-- GPUs are withheld from from_ms (UTC ms) on: gpu_ids (INTEGER[]), states and reasons (VARCHAR[]), equally long.
INSERT INTO withheld BY NAME
SELECT
    unnest(CAST($gpu_ids AS INTEGER[])) AS gpu_id, epoch_ms(CAST($from_ms AS BIGINT)) AS from_ts, NULL::TIMESTAMP AS to_ts,
    unnest(CAST($states AS VARCHAR[])) AS state, unnest(CAST($reasons AS VARCHAR[])) AS reason;
