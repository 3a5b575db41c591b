-- Jobs that Fallow put on one GPU, and how fast they went there, the latest first: what pairing has learnt.
--
-- The latest 20,000: more would teach nothing new. Speeds are parts of a job's own speed alone. The trial is the first windows of both.
--
-- @param from_ts instant: nothing older
-- @column host text: the job that was on the GPU
-- @column guest text: the job that came
-- @column gpu_model text: what was learnt holds for this model alone
-- @column host_profile text: what jobs have in common that behave as the host does
-- @column guest_profile text: the same of the guest
-- @column since_ms bigint (ms): when they were first seen together
-- @column host_alone double (Hz): the host's steps a second before that
-- @column guest_alone double (Hz): the guest's
-- @column gain_expected_gpus double (GPUs): what it was expected to add, when they were put together
-- @column host_speed_ratio double (ratio): the part of the host's own speed that the trial showed
-- @column guest_speed_ratio double (ratio): the same of the guest
-- @column windows integer: how many windows the trial had
-- @column undone boolean: parted, and not put together again
-- @null host_alone, guest_alone: its steps were not counted; host_speed_ratio, guest_speed_ratio: no trial was measured
SELECT
    host, guest, gpu_model, host_profile, guest_profile, epoch_ms(since) AS since_ms, host_alone, guest_alone,
    gain_expected AS gain_expected_gpus, host_speed AS host_speed_ratio, guest_speed AS guest_speed_ratio, windows, undone
FROM pairs
WHERE since >= $from_ts
ORDER BY since DESC, host, guest
LIMIT 20000;
