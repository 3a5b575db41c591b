-- The whole schema of a new store: what the numbered files of this folder come to. Never edited; written by
--     python -m tests.collector.store.base_schema
-- What a column means, and why something is as it is, say the numbered files and docs/schema.md.

CREATE SEQUENCE finding_ids INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START 1 NO CYCLE;
CREATE SEQUENCE gpu_ids INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START 1 NO CYCLE;
CREATE SEQUENCE holder_ids INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START 1 NO CYCLE;
CREATE SEQUENCE process_ids INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START 1 NO CYCLE;

CREATE TABLE accounted_runs (
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    number VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    started_at TIMESTAMP,
    ended_at TIMESTAMP NOT NULL,
    shown_id VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    "partition" VARCHAR NOT NULL,
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    state_name VARCHAR NOT NULL,
    exit_code VARCHAR NOT NULL,
    node_names VARCHAR[] NOT NULL,
    gpus INTEGER NOT NULL,
    gpu_types VARCHAR NOT NULL,
    shards INTEGER NOT NULL,
    asked_gpus INTEGER,
    limit_s BIGINT,
    measured_gpus INTEGER NOT NULL,
    unused_gpus INTEGER NOT NULL,
    utilization_ratio DOUBLE,
    measured VARCHAR
);

CREATE TABLE alert_cases (
    number BIGINT PRIMARY KEY,
    "key" VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    "level" INTEGER NOT NULL,
    rung VARCHAR NOT NULL,
    since_at TIMESTAMP NOT NULL,
    title VARCHAR NOT NULL,
    says VARCHAR NOT NULL,
    "next" VARCHAR NOT NULL,
    command VARCHAR NOT NULL,
    evidence VARCHAR NOT NULL,
    job VARCHAR,
    user_name VARCHAR,
    project VARCHAR,
    node VARCHAR,
    gpus VARCHAR NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    changed_at TIMESTAMP NOT NULL,
    told_level INTEGER NOT NULL,
    told_at TIMESTAMP,
    closed_at TIMESTAMP,
    because VARCHAR NOT NULL
);

CREATE TABLE alert_letters (
    number BIGINT PRIMARY KEY,
    alert BIGINT NOT NULL,
    opened_at TIMESTAMP NOT NULL,
    receiver VARCHAR NOT NULL,
    kind VARCHAR NOT NULL,
    turn VARCHAR NOT NULL,
    title VARCHAR NOT NULL,
    body VARCHAR NOT NULL,
    made_at TIMESTAMP NOT NULL,
    due_at TIMESTAMP NOT NULL,
    gathered BOOLEAN NOT NULL,
    digest BIGINT,
    telling VARCHAR,
    posted_at TIMESTAMP,
    outcome VARCHAR,
    found VARCHAR,
    settled_at TIMESTAMP,
    noted_at TIMESTAMP
);

CREATE TABLE alert_marks (
    "name" VARCHAR PRIMARY KEY,
    since_at TIMESTAMP NOT NULL
);

CREATE TABLE allocations (
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    "share" DOUBLE NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP,
    "source" VARCHAR NOT NULL
);

CREATE TABLE archive_place (
    address VARCHAR NOT NULL,
    endpoint VARCHAR NOT NULL,
    region VARCHAR NOT NULL,
    ca_file VARCHAR NOT NULL
);

CREATE TABLE archived (
    "key" VARCHAR PRIMARY KEY,
    "day" DATE NOT NULL,
    path VARCHAR NOT NULL,
    sealed_at TIMESTAMP NOT NULL,
    samples BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    sha256 VARCHAR NOT NULL,
    archived_at TIMESTAMP NOT NULL,
    is_here BOOLEAN NOT NULL
);

CREATE TABLE checkpoints (
    job VARCHAR NOT NULL,
    intent BIGINT NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    ended_at TIMESTAMP,
    ended_as VARCHAR
);

CREATE TABLE consents (
    said_at TIMESTAMP NOT NULL,
    user_name VARCHAR NOT NULL,
    job VARCHAR,
    kind VARCHAR NOT NULL,
    allowed BOOLEAN,
    until_at TIMESTAMP
);

CREATE TABLE directives (
    number BIGINT NOT NULL,
    job VARCHAR NOT NULL,
    given_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    handled_at TIMESTAMP,
    failed VARCHAR
);

CREATE TABLE entries (
    job VARCHAR PRIMARY KEY,
    number BIGINT NOT NULL,
    nonce VARCHAR NOT NULL,
    user_name VARCHAR NOT NULL,
    project VARCHAR NOT NULL,
    stand VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    ended_at TIMESTAMP,
    body VARCHAR NOT NULL
);

CREATE TABLE events (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    detail VARCHAR
);

CREATE TABLE findings (
    finding_id INTEGER DEFAULT(nextval('finding_ids')) PRIMARY KEY,
    kind VARCHAR NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    opened_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP NOT NULL,
    closed_at TIMESTAMP,
    window_from TIMESTAMP NOT NULL,
    window_to TIMESTAMP NOT NULL,
    coverage DOUBLE NOT NULL,
    rung UTINYINT NOT NULL,
    wasted_gpu_hours DOUBLE,
    sentence VARCHAR NOT NULL,
    evidence JSON NOT NULL,
    of_past BOOLEAN DEFAULT(false)
);

CREATE TABLE gaps (
    "source" VARCHAR NOT NULL,
    node VARCHAR,
    gpu_id INTEGER,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE gpus (
    gpu_id INTEGER DEFAULT(nextval('gpu_ids')) PRIMARY KEY,
    uuid VARCHAR NOT NULL UNIQUE,
    node VARCHAR NOT NULL,
    gpu_index INTEGER,
    model VARCHAR,
    memory_total_bytes BIGINT,
    driver_version VARCHAR,
    power_limit_mw INTEGER,
    parent_uuid VARCHAR,
    mig_profile VARCHAR,
    share_of_device DOUBLE DEFAULT(1.0) NOT NULL,
    persistence_mode BOOLEAN,
    "source" VARCHAR NOT NULL,
    installed_from TIMESTAMP NOT NULL,
    installed_to TIMESTAMP,
    idle_power_mw INTEGER,
    unlisted_from TIMESTAMP,
    memory_free_bytes BIGINT,
    gpu_instance INTEGER,
    compute_instance INTEGER,
    cut_of VARCHAR,
    cut_from TIMESTAMP,
    "cluster" VARCHAR,
    host VARCHAR
);

CREATE TABLE harvests (
    job VARCHAR,
    from_at TIMESTAMP,
    foreground VARCHAR NOT NULL,
    gpu_uuid VARCHAR NOT NULL,
    to_at TIMESTAMP NOT NULL,
    steps BIGINT NOT NULL,
    work_s DOUBLE,
    slowdown_ratio DOUBLE,
    foreground_steps BIGINT,
    PRIMARY KEY(job, from_at)
);

CREATE TABLE head_terms (
    "start" BIGINT PRIMARY KEY,
    epoch BIGINT NOT NULL,
    word VARCHAR NOT NULL,
    began_at TIMESTAMP NOT NULL,
    superseded VARCHAR
);

CREATE TABLE holder_samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    gpu_utilization_e4 SMALLINT,
    memory_used_bytes BIGINT
);

CREATE TABLE holders (
    holder_id INTEGER DEFAULT(nextval('holder_ids')) PRIMARY KEY,
    job VARCHAR NOT NULL UNIQUE,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,
    framework VARCHAR,
    command VARCHAR,
    first_seen TIMESTAMP NOT NULL,
    last_seen TIMESTAMP NOT NULL,
    user_from VARCHAR,
    project_from VARCHAR
);

CREATE TABLE hook_acts (
    intent BIGINT PRIMARY KEY,
    job VARCHAR NOT NULL,
    verb VARCHAR NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    ended_at TIMESTAMP,
    ended_as VARCHAR,
    settled_at TIMESTAMP,
    outcome VARCHAR,
    over_at TIMESTAMP,
    over_as VARCHAR
);

CREATE TABLE imports (
    origin VARCHAR NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP NOT NULL,
    rows_added BIGINT NOT NULL,
    finished_at TIMESTAMP NOT NULL,
    rules VARCHAR,
    judged_to TIMESTAMP
);

CREATE TABLE intents (
    intent BIGINT PRIMARY KEY,
    begun_at TIMESTAMP NOT NULL,
    plan BIGINT,
    job VARCHAR NOT NULL,
    verb VARCHAR NOT NULL,
    actor VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    step VARCHAR NOT NULL,
    stood VARCHAR NOT NULL,
    outcome VARCHAR,
    found VARCHAR,
    settled_at TIMESTAMP,
    undo VARCHAR,
    undone_by BIGINT,
    steady_ms BIGINT,
    boot VARCHAR,
    no_undo VARCHAR
);

CREATE TABLE intrusions (
    gpu_id INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP
);

CREATE TABLE judged (
    as_of TIMESTAMP NOT NULL
);

CREATE TABLE keeps (
    job VARCHAR NOT NULL,
    kept_at TIMESTAMP NOT NULL,
    until_at TIMESTAMP NOT NULL,
    by_user VARCHAR NOT NULL
);

CREATE TABLE latest_apart (
    ts TIMESTAMP,
    gpu_id INTEGER,
    width_ms INTEGER,
    rung UTINYINT,
    utilization_e4 SMALLINT,
    gpu_utilization_e4 SMALLINT,
    graphics_active_e4 SMALLINT,
    sm_active_e4 SMALLINT,
    memory_used_bytes BIGINT,
    power_mw INTEGER,
    temperature_c SMALLINT,
    process_count SMALLINT,
    flags VARCHAR,
    engines_e4 SMALLINT,
    traffic_e4 SMALLINT
);

CREATE TABLE latest_times (
    ts TIMESTAMP NOT NULL
);

CREATE TABLE leases (
    lease_id VARCHAR PRIMARY KEY,
    gpu_uuid VARCHAR NOT NULL,
    job VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,
    "share" DOUBLE NOT NULL,
    granted_at TIMESTAMP NOT NULL,
    released_at TIMESTAMP
);

CREATE TABLE manager_acts (
    intent BIGINT NOT NULL,
    job VARCHAR NOT NULL,
    verb VARCHAR NOT NULL,
    begun_at TIMESTAMP NOT NULL,
    body VARCHAR NOT NULL,
    after_body VARCHAR,
    seen_at TIMESTAMP,
    outcome VARCHAR,
    settled_at TIMESTAMP,
    over_as VARCHAR,
    over_at TIMESTAMP
);

CREATE TABLE manager_jobs (
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    number VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    restarts INTEGER NOT NULL,
    job VARCHAR NOT NULL,
    shown_id VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    job_name VARCHAR,
    kind VARCHAR,
    state VARCHAR NOT NULL,
    state_name VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    "partition" VARCHAR NOT NULL,
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    nodes INTEGER NOT NULL,
    gpus INTEGER,
    shards INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    given VARCHAR,
    priority BIGINT,
    limit_s BIGINT,
    eligible_at TIMESTAMP,
    started_at TIMESTAMP,
    ended_at TIMESTAMP,
    gpu_type VARCHAR DEFAULT(''),
    cause VARCHAR,
    expected_at TIMESTAMP,
    word VARCHAR DEFAULT(''),
    limit_met VARCHAR
);

CREATE TABLE manager_looks (
    ts TIMESTAMP NOT NULL,
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    took_ms DOUBLE NOT NULL,
    running INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    nodes INTEGER NOT NULL,
    gpus INTEGER NOT NULL,
    given_gpus INTEGER NOT NULL,
    doubted_nodes INTEGER NOT NULL
);

CREATE TABLE manager_nodes (
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    state VARCHAR,
    reason VARCHAR NOT NULL,
    gpus INTEGER,
    given_gpus INTEGER,
    partitions VARCHAR NOT NULL,
    gpu_types VARCHAR DEFAULT('')
);

CREATE TABLE manager_reservations (
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    "name" VARCHAR NOT NULL,
    node_names VARCHAR[] NOT NULL,
    is_whole BOOLEAN NOT NULL,
    whose VARCHAR NOT NULL,
    starts_at TIMESTAMP,
    ends_at TIMESTAMP
);

CREATE TABLE manager_waits (
    manager VARCHAR NOT NULL,
    "cluster" VARCHAR NOT NULL,
    number VARCHAR NOT NULL,
    submitted_at TIMESTAMP NOT NULL,
    restarts INTEGER NOT NULL,
    job VARCHAR NOT NULL,
    user_name VARCHAR,
    project VARCHAR,
    "partition" VARCHAR NOT NULL,
    qos VARCHAR NOT NULL,
    reservation VARCHAR NOT NULL,
    gpu_type VARCHAR NOT NULL,
    gpus INTEGER NOT NULL,
    cause VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP,
    limit_met VARCHAR
);

CREATE TABLE newest_tick (
    ts TIMESTAMP
);

CREATE TABLE node_marks (
    node VARCHAR PRIMARY KEY,
    credential VARCHAR NOT NULL,
    machine VARCHAR NOT NULL,
    spool VARCHAR NOT NULL,
    "version" VARCHAR NOT NULL,
    "sequence" BIGINT NOT NULL,
    last_ts TIMESTAMP,
    heard_ts TIMESTAMP NOT NULL,
    ahead_ms BIGINT NOT NULL,
    lost BIGINT NOT NULL,
    waiting BIGINT,
    waits_ms BIGINT
);

CREATE TABLE origin (
    origin VARCHAR NOT NULL,
    since TIMESTAMP NOT NULL
);

CREATE TABLE pairs (
    host VARCHAR,
    guest VARCHAR,
    gpu_model VARCHAR NOT NULL,
    host_profile VARCHAR NOT NULL,
    guest_profile VARCHAR NOT NULL,
    since TIMESTAMP NOT NULL,
    host_alone DOUBLE,
    guest_alone DOUBLE,
    gain_expected DOUBLE NOT NULL,
    host_speed DOUBLE,
    guest_speed DOUBLE,
    windows INTEGER DEFAULT(0) NOT NULL,
    undone BOOLEAN DEFAULT(false) NOT NULL,
    PRIMARY KEY(host, guest)
);

CREATE TABLE patterns (
    holder_id INTEGER NOT NULL,
    kind VARCHAR NOT NULL,
    as_of TIMESTAMP NOT NULL,
    window_from TIMESTAMP NOT NULL,
    window_to TIMESTAMP NOT NULL,
    evidence JSON NOT NULL,
    reason VARCHAR
);

CREATE TABLE "plans" (
    plan BIGINT PRIMARY KEY,
    as_of TIMESTAMP NOT NULL,
    state VARCHAR NOT NULL,
    body VARCHAR NOT NULL,
    settled_at TIMESTAMP,
    settled_by VARCHAR,
    because VARCHAR,
    snoozed_until TIMESTAMP
);

CREATE TABLE prices (
    model VARCHAR PRIMARY KEY,
    per_gpu_hour DOUBLE NOT NULL,
    currency VARCHAR NOT NULL
);

CREATE TABLE process_samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    process_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    process_type VARCHAR NOT NULL,
    memory_used_bytes BIGINT,
    sm_e4 SMALLINT
);

CREATE TABLE processes (
    process_id INTEGER DEFAULT(nextval('process_ids')) NOT NULL,
    node VARCHAR NOT NULL,
    pid INTEGER NOT NULL,
    started_at TIMESTAMP NOT NULL,
    user_name VARCHAR,
    process_name VARCHAR,
    command VARCHAR,
    frameworks VARCHAR[],
    container VARCHAR,
    pod VARCHAR,
    pod_namespace VARCHAR,
    uid BIGINT,
    parent_pid INTEGER,
    slurm_job VARCHAR,
    notebook VARCHAR,
    environment MAP(VARCHAR, VARCHAR),
    unreadable VARCHAR[],
    holder_id INTEGER,
    first_seen TIMESTAMP NOT NULL,
    last_seen TIMESTAMP NOT NULL,
    listens INTEGER[]
);

CREATE TABLE rollup_1d (
    ts TIMESTAMP,
    gpu_id INTEGER,
    holder_id INTEGER,
    free_ms INTEGER,
    allocated_empty_ms INTEGER,
    held_idle_ms INTEGER,
    low_saturation_ms INTEGER,
    moderate_ms INTEGER,
    good_ms INTEGER,
    suspect_ms INTEGER,
    unknown_ms INTEGER,
    held_ms INTEGER,
    measured_ms INTEGER,
    used_ms INTEGER,
    utilization_max_e4 SMALLINT,
    rung UTINYINT,
    memory_used_mean_bytes BIGINT,
    memory_used_max_bytes BIGINT,
    energy_mj BIGINT,
    withheld_ms INTEGER DEFAULT(0),
    energy_ms INTEGER,
    state_energy_ms INTEGER,
    wasted_energy_ms INTEGER,
    free_energy_mj BIGINT,
    allocated_empty_energy_mj BIGINT,
    held_idle_energy_mj BIGINT,
    low_saturation_energy_mj BIGINT,
    moderate_energy_mj BIGINT,
    good_energy_mj BIGINT,
    suspect_energy_mj BIGINT,
    withheld_energy_mj BIGINT,
    unknown_energy_mj BIGINT,
    engines_ms INTEGER DEFAULT(0),
    faint_ms INTEGER DEFAULT(0),
    controller_max_e4 SMALLINT,
    copied_ms INTEGER DEFAULT(0)
);

CREATE TABLE rollup_1h (
    ts TIMESTAMP,
    gpu_id INTEGER,
    holder_id INTEGER,
    free_ms INTEGER,
    allocated_empty_ms INTEGER,
    held_idle_ms INTEGER,
    low_saturation_ms INTEGER,
    moderate_ms INTEGER,
    good_ms INTEGER,
    suspect_ms INTEGER,
    unknown_ms INTEGER,
    held_ms INTEGER,
    measured_ms INTEGER,
    used_ms INTEGER,
    utilization_max_e4 SMALLINT,
    rung UTINYINT,
    memory_used_mean_bytes BIGINT,
    memory_used_max_bytes BIGINT,
    energy_mj BIGINT,
    withheld_ms INTEGER DEFAULT(0),
    energy_ms INTEGER,
    state_energy_ms INTEGER,
    wasted_energy_ms INTEGER,
    free_energy_mj BIGINT,
    allocated_empty_energy_mj BIGINT,
    held_idle_energy_mj BIGINT,
    low_saturation_energy_mj BIGINT,
    moderate_energy_mj BIGINT,
    good_energy_mj BIGINT,
    suspect_energy_mj BIGINT,
    withheld_energy_mj BIGINT,
    unknown_energy_mj BIGINT,
    engines_ms INTEGER DEFAULT(0),
    faint_ms INTEGER DEFAULT(0),
    controller_max_e4 SMALLINT,
    copied_ms INTEGER DEFAULT(0)
);

CREATE TABLE rollup_1m (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    free_ms INTEGER NOT NULL,
    allocated_empty_ms INTEGER NOT NULL,
    held_idle_ms INTEGER NOT NULL,
    low_saturation_ms INTEGER NOT NULL,
    moderate_ms INTEGER NOT NULL,
    good_ms INTEGER NOT NULL,
    suspect_ms INTEGER NOT NULL,
    unknown_ms INTEGER NOT NULL,
    held_ms INTEGER NOT NULL,
    measured_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    utilization_max_e4 SMALLINT,
    rung UTINYINT NOT NULL,
    memory_used_mean_bytes BIGINT,
    memory_used_max_bytes BIGINT,
    energy_mj BIGINT,
    withheld_ms INTEGER DEFAULT(0),
    energy_ms INTEGER,
    state_energy_ms INTEGER,
    wasted_energy_ms INTEGER,
    free_energy_mj BIGINT,
    allocated_empty_energy_mj BIGINT,
    held_idle_energy_mj BIGINT,
    low_saturation_energy_mj BIGINT,
    moderate_energy_mj BIGINT,
    good_energy_mj BIGINT,
    suspect_energy_mj BIGINT,
    withheld_energy_mj BIGINT,
    unknown_energy_mj BIGINT,
    engines_ms INTEGER DEFAULT(0),
    faint_ms INTEGER DEFAULT(0),
    controller_max_e4 SMALLINT,
    copied_ms INTEGER DEFAULT(0)
);

CREATE TABLE samples (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    width_ms INTEGER NOT NULL,
    rung UTINYINT NOT NULL,
    utilization_e4 SMALLINT,
    gpu_utilization_e4 SMALLINT,
    gpu_utilization_max_e4 SMALLINT,
    gpu_busy_e4 SMALLINT,
    memory_controller_e4 SMALLINT,
    encoder_e4 SMALLINT,
    decoder_e4 SMALLINT,
    graphics_active_e4 SMALLINT,
    sm_active_e4 SMALLINT,
    sm_occupancy_e4 SMALLINT,
    tensor_active_e4 SMALLINT,
    dram_active_e4 SMALLINT,
    memory_used_bytes BIGINT,
    memory_reserved_bytes BIGINT,
    power_mw INTEGER,
    energy_mj BIGINT,
    temperature_c SMALLINT,
    sm_clock_mhz SMALLINT,
    memory_clock_mhz SMALLINT,
    throttle_reasons BIGINT,
    ecc_corrected BIGINT,
    ecc_uncorrected BIGINT,
    xid INTEGER,
    process_count SMALLINT,
    flags VARCHAR,
    jpeg_e4 SMALLINT,
    ofa_e4 SMALLINT
);

CREATE TABLE schema_migrations (
    number INTEGER PRIMARY KEY,
    "name" VARCHAR NOT NULL,
    applied_at TIMESTAMP DEFAULT(CAST(timezone('UTC', now()) AS TIMESTAMP)) NOT NULL
);

CREATE TABLE sealed (
    "day" DATE NOT NULL,
    path VARCHAR PRIMARY KEY,
    samples BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    widest_ms INTEGER NOT NULL,
    sealed_at TIMESTAMP NOT NULL
);

CREATE TABLE switches (
    "name" VARCHAR PRIMARY KEY,
    is_on BOOLEAN NOT NULL,
    set_at TIMESTAMP NOT NULL,
    by_user VARCHAR NOT NULL,
    because VARCHAR NOT NULL
);

CREATE TABLE tellings (
    job VARCHAR NOT NULL,
    told_at TIMESTAMP NOT NULL,
    rung VARCHAR NOT NULL,
    message VARCHAR NOT NULL,
    reached VARCHAR
);

CREATE TABLE ticks (
    ts TIMESTAMP NOT NULL,
    "source" VARCHAR NOT NULL,
    duration_ms DOUBLE NOT NULL,
    gpus INTEGER NOT NULL,
    reason VARCHAR
);

CREATE TABLE unclear_claims (
    process_id INTEGER NOT NULL,
    reason VARCHAR NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP
);

CREATE TABLE unjudged (
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER,
    verdict VARCHAR NOT NULL,
    kinds VARCHAR[] NOT NULL,
    reason VARCHAR NOT NULL,
    as_of TIMESTAMP NOT NULL
);

CREATE TABLE unproven_claims (
    job VARCHAR,
    gpu_uuid VARCHAR,
    user_name VARCHAR NOT NULL,
    first_at TIMESTAMP NOT NULL,
    last_at TIMESTAMP NOT NULL,
    why VARCHAR NOT NULL,
    PRIMARY KEY(job, gpu_uuid)
);

CREATE TABLE watermarks (
    "name" VARCHAR PRIMARY KEY,
    complete_to TIMESTAMP NOT NULL
);

CREATE TABLE withheld (
    gpu_id INTEGER NOT NULL,
    from_ts TIMESTAMP NOT NULL,
    to_ts TIMESTAMP,
    state VARCHAR NOT NULL,
    reason VARCHAR NOT NULL
);

CREATE TABLE worked_minutes (
    ts TIMESTAMP NOT NULL,
    gpu_id INTEGER NOT NULL,
    holder_id INTEGER NOT NULL,
    worked BIGINT NOT NULL,
    known BIGINT NOT NULL
);

CREATE MACRO beside_step_s(window_from, window_to) AS
    CASE WHEN window_to - window_from <= INTERVAL 25 HOUR THEN 60
        WHEN window_to - window_from <= INTERVAL 8 DAY THEN 600 ELSE 3600 END;

CREATE MACRO busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4) AS
    greatest(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        CASE WHEN engines_e4 > 100 THEN engines_e4 END);

-- Whether a board draws more than any idle one does, though nothing of it was active (analytics/thresholds.py says why
-- these numbers): twice its own idle power, and 40% of its limit, at least 150 W; 300 W where its limit is not known.
-- busiest_e4 is that of the whole board. Never of a MIG instance: the power that is told of it is its board's.;

CREATE MACRO days_for(step_s, days_to) AS
    CASE WHEN step_s % 86400 = 0 THEN days_to ELSE TIMESTAMP '1970-01-01' END;

-- A row a GPU. With a project or user: what they held of it, and no missing time, which nobody is known to have held.;

CREATE MACRO days_from(window_from) AS time_bucket(INTERVAL 1 DAY, window_from + INTERVAL 1439 MINUTE);

CREATE MACRO days_until(window_to, hours_to, days_to) AS
    least(days_to, hours_to, time_bucket(INTERVAL 1 DAY, window_to));

-- Rolled-up rows of a window: days that are complete and lie wholly inside, hours before and after them, minutes for
-- the rest. How far the levels are complete comes as arguments, because bounds that are known when a query is planned
-- let it skip what lies outside.;

CREATE MACRO energy_kwh(mj, measured_ms, whole_ms) AS
    CASE WHEN sum(measured_ms) > 0 THEN coalesce(sum(mj), 0) / 3600000000.0
        WHEN coalesce(sum(whole_ms), 0) = 0 THEN 0.0 END;

-- The same of one row.;

CREATE MACRO gpu_place(gpu_index, uuid, parent_uuid, mig_profile, gpu_instance, compute_instance) AS
    CASE
        WHEN parent_uuid IS NULL THEN gpu_index::VARCHAR
        WHEN gpu_instance IS NULL THEN gpu_index || '/' || coalesce(mig_profile, 'MIG') || ' (' || uuid[:12] || ')'
        ELSE gpu_index || '/' || coalesce(mig_profile, 'MIG') || '#' || gpu_instance || CASE
            WHEN compute_instance IS NOT NULL AND regexp_matches(coalesce(mig_profile, ''), '^[0-9]+c[.]')
                THEN '.' || compute_instance ELSE '' END
    END;

CREATE VIEW gpu_prices AS
SELECT
    g.gpu_id, coalesce(own.per_gpu_hour, other.per_gpu_hour) AS per_gpu_hour,
    coalesce(own.currency, other.currency) AS currency
FROM gpus AS g
LEFT JOIN prices AS own ON own.model = g.model
LEFT JOIN prices AS other ON other.model = '*';

-- Sums over ledger rows: share_of_device weighs hours; money is NULL if any hour has no price or currencies differ.;

CREATE MACRO installed_ms(window_from, window_to, installed_from, installed_to) AS
    greatest(0, epoch_ms(least(window_to, coalesce(
        time_bucket(INTERVAL 30 SECOND, installed_to + INTERVAL 29999999 MICROSECOND), window_to)))
        - epoch_ms(greatest(window_from, time_bucket(INTERVAL 30 SECOND, installed_from))));

CREATE MACRO steps(window_from, window_to, step_s) AS TABLE
SELECT greatest(window_from, start) AS ts,
    epoch_ms(least(window_to, start + to_seconds(step_s))) - epoch_ms(greatest(window_from, start)) AS step_ms
FROM (SELECT unnest(range(
    time_bucket(to_seconds(step_s), window_from, TIMESTAMP '1970-01-01'), window_to, to_seconds(step_s))) AS start);

-- The ledger step by step, a row a step and kind of GPU (share of a device, price).;

CREATE MACRO hours_from(window_from) AS time_bucket(INTERVAL 1 HOUR, window_from + INTERVAL 59 MINUTE);

CREATE MACRO hours_until(window_to, hours_to) AS least(hours_to, time_bucket(INTERVAL 1 HOUR, window_to));

CREATE MACRO usage(window_from, window_to, hours_to, days_to) AS TABLE
SELECT * FROM rollup_1d
WHERE ts >= days_from(window_from) AND ts < days_until(window_to, hours_to, days_to)
UNION ALL
SELECT * FROM rollup_1h
WHERE ts >= hours_from(window_from) AND ts < least(hours_until(window_to, hours_to), days_from(window_from))
UNION ALL
SELECT * FROM rollup_1h
WHERE ts >= greatest(days_from(window_from), days_until(window_to, hours_to, days_to))
    AND ts < hours_until(window_to, hours_to)
UNION ALL
SELECT * FROM rollup_1m
WHERE ts >= window_from AND ts < least(window_to, hours_from(window_from))
UNION ALL
SELECT * FROM rollup_1m
WHERE ts >= greatest(hours_from(window_from), hours_until(window_to, hours_to)) AND ts < window_to;

-- Of these, what a project or user held; everything when both are NULL. Two halves, of which one is planned away,
-- because joining the holders to no purpose costs as much as reading the rows.;

CREATE MACRO usage_of(window_from, window_to, hours_to, days_to, only_project, only_user) AS TABLE
SELECT * FROM usage(window_from, window_to, hours_to, days_to) WHERE only_project IS NULL AND only_user IS NULL
UNION ALL
SELECT * FROM usage(window_from, window_to, hours_to, days_to)
WHERE (only_project IS NOT NULL OR only_user IS NOT NULL) AND holder_id IN (
    SELECT holder_id FROM holders
    WHERE (only_project IS NULL OR project = only_project) AND (only_user IS NULL OR user_name = only_user));

-- Whole days will do for steps of whole days.;

CREATE MACRO gpu_rows(
    window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
WITH rolled AS (
    SELECT
        gpu_id, sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms,
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        (sum(used_ms) FILTER (rung = 1))::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms
    FROM usage_of(window_from, window_to, hours_to, days_to, only_project, only_user)
    GROUP BY gpu_id
), totals AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.share_of_device, p.per_gpu_hour, p.currency,
        r.* EXCLUDE (gpu_id), coalesce(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms
            + good_ms + suspect_ms + withheld_ms + unknown_ms, 0) AS rolled_ms,
        CASE WHEN only_project IS NULL AND only_user IS NULL
            THEN installed_ms(window_from, window_to, installed_from, installed_to) - rolled_ms ELSE 0 END AS missing_ms
    FROM gpus AS g
    JOIN gpu_prices AS p USING (gpu_id)
    LEFT JOIN rolled AS r ON r.gpu_id = g.gpu_id
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
)
SELECT
    gpu_id, uuid, node, gpu_index, model, share_of_device, per_gpu_hour, currency, missing_ms,
    rolled_ms + missing_ms AS total_ms, coalesce(free_ms, 0) AS free_ms,
    coalesce(allocated_empty_ms, 0) AS allocated_empty_ms, coalesce(held_idle_ms, 0) AS held_idle_ms,
    coalesce(low_saturation_ms, 0) AS low_saturation_ms, coalesce(moderate_ms, 0) AS moderate_ms,
    coalesce(good_ms, 0) AS good_ms, coalesce(suspect_ms, 0) AS suspect_ms,
    coalesce(withheld_ms, 0) AS withheld_ms,
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(bound_used_ms, 0) AS bound_used_ms,
    energy_mj, coalesce(energy_ms, 0) AS energy_ms, wasted_energy_mj, coalesce(wasted_energy_ms, 0) AS wasted_energy_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM totals
WHERE rolled_ms + missing_ms > 0;

CREATE MACRO gpu_state_of(
    held, present, process_count, memory_above_floor, busiest_e4, utilization_e4, engines_e4, gpu_utilization_e4,
    power_mw, idle_power_mw, denies_idle, sms_at_work
) AS
    CASE
        WHEN gpu_utilization_e4 >= 9000 AND process_count = 0 THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND power_mw <= 1.1 * idle_power_mw THEN 7
        WHEN gpu_utilization_e4 >= 9000 AND utilization_e4 < 1 AND coalesce(engines_e4, 0) <= 100 THEN 7
        WHEN denies_idle THEN 7
        WHEN busiest_e4 > 100 THEN
            CASE
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 2500 THEN 4
                WHEN greatest(coalesce(utilization_e4, busiest_e4), engines_e4) < 5000 THEN 5
                ELSE 6
            END
        WHEN held AND sms_at_work THEN 4
        WHEN present AND busiest_e4 IS NULL THEN 0
        WHEN present AND NOT held AND process_count IS NOT NULL AND NOT memory_above_floor THEN 1
        WHEN present THEN 3
        WHEN held AND present IS NOT NULL THEN 2
        WHEN held AND busiest_e4 IS NOT NULL THEN 3
        WHEN present IS NULL THEN 0
        WHEN memory_above_floor THEN 7
        ELSE 1
    END;

CREATE MACRO idle_memory_floor_bytes(memory_total_bytes) AS
    greatest(1073741824, coalesce(memory_total_bytes, 0) // 100);

-- Whether a process is there: counted, or, when nobody counted, betrayed by its memory. NULL: no way to tell.;

CREATE MACRO is_copying(busiest_e4, traffic_e4) AS
    coalesce(busiest_e4 <= 100 AND traffic_e4 > 100, false);

-- As before, and: what copies is at work.;

CREATE MACRO power_denies_idle(busiest_e4, power_mw, idle_power_mw, power_limit_mw, mig_profile) AS
    mig_profile IS NULL AND busiest_e4 <= 100
    AND NOT coalesce(power_mw <= 1.1 * idle_power_mw, false)
    AND power_mw >= CASE
        WHEN power_limit_mw > 0 THEN least(
            greatest(2 * idle_power_mw, least(greatest(0.4 * power_limit_mw, 150000), 0.75 * power_limit_mw)),
            idle_power_mw + 0.75 * (power_limit_mw - idle_power_mw))
        ELSE greatest(2 * idle_power_mw, 300000)
    END;

CREATE MACRO process_is_present(
    process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, busiest_e4
) AS
    CASE
        WHEN process_count IS NOT NULL THEN process_count > 0
        WHEN busiest_e4 > 100 THEN true
        WHEN memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes) THEN true
        WHEN memory_used_bytes <= coalesce(memory_free_bytes, 0) + 67108864 THEN false
    END;

-- 0 unknown, 1 free, 2 allocated-empty, 3 held-idle, 4 low-saturation, 5 moderate, 6 good, 7 suspect.
-- busiest_e4: the largest of all rungs and engines there are; utilization_e4: the best rung; engines_e4: the busiest
-- engine beside the SMs. What is held, does nothing, and may or may not have a process, is held-idle; what nobody
-- holds is unknown then. A process of nobody that does nothing and has no memory to speak of (a desktop's, a
-- daemon's) leaves its GPU free.;

CREATE MACRO gpu_state_code(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw, power_limit_mw,
    mig_profile
) AS
    gpu_state_of(
        held,
        process_is_present(process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes,
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4)),
        process_count,
        coalesce(memory_used_bytes > idle_memory_floor_bytes(memory_total_bytes), false),
        busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
        utilization_e4, engines_e4, gpu_utilization_e4, power_mw, idle_power_mw,
        power_denies_idle(
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4), power_mw,
            idle_power_mw, power_limit_mw, mig_profile),
        sm_active_e4 >= 1 OR is_copying(
            busiest_of(utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4),
            traffic_e4)
    );

CREATE VIEW latest AS
FROM (
    SELECT
        ts, gpu_id, width_ms, rung, utilization_e4, gpu_utilization_e4, graphics_active_e4, sm_active_e4,
        memory_used_bytes, power_mw, temperature_c, process_count, flags,
        greatest(encoder_e4, decoder_e4, jpeg_e4, ofa_e4) AS engines_e4,
        greatest(memory_controller_e4, dram_active_e4) AS traffic_e4
    FROM samples JOIN latest_times USING (ts)
    UNION ALL BY NAME
    FROM latest_apart
)
QUALIFY row_number() OVER (PARTITION BY gpu_id ORDER BY ts DESC) = 1;

-- Whether memory was read or written, by more than noise, while nothing computed; busiest_e4 is that of the whole board,
-- as traffic_e4 is, the larger of the time in which memory was read or written and of the cycles in which it was active.
-- False: not measured.;

CREATE MACRO gpu_state_name(code) AS
    ['unknown', 'free', 'allocated-empty', 'held-idle', 'low-saturation', 'moderate', 'good', 'suspect'][code + 1];

-- The state's name, for what `latest` and `gpus` hold. Whether the sample is too old to count is the caller's to say.;

CREATE MACRO gpu_state(
    held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4, gpu_utilization_e4,
    graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw, power_limit_mw,
    mig_profile
) AS
    gpu_state_name(gpu_state_code(
        held, process_count, memory_used_bytes, memory_total_bytes, memory_free_bytes, utilization_e4,
        gpu_utilization_e4, graphics_active_e4, sm_active_e4, engines_e4, traffic_e4, power_mw, idle_power_mw,
        power_limit_mw, mig_profile
    ));

CREATE MACRO gpus_at_newest_tick(only_node, only_project, only_user, only_model) AS TABLE
WITH newest_samples AS MATERIALIZED (
    FROM latest
), newest AS (
    SELECT max(ts) AS as_of, coalesce((SELECT max(ts) FROM newest_tick), max(ts)) AS ticked_at FROM newest_samples
), rare AS (
    SELECT gpu_id, holder_id, min(least(opened_at, window_from)) AS from_ts
    FROM findings
    WHERE kind = 'rarely-used' AND closed_at IS NULL AND last_seen_at >= (SELECT as_of FROM newest) - INTERVAL 1 HOUR
    GROUP BY gpu_id, holder_id
), held AS (
    SELECT
        a.gpu_id, bool_and(r.gpu_id IS NOT NULL) AS is_rare, max(r.from_ts) AS rare_from, string_agg(DISTINCT h.user_name, ', ' ORDER BY h.user_name) AS user_name,
        string_agg(DISTINCT h.project, ', ' ORDER BY h.project) AS project,
        string_agg(DISTINCT h.job, ', ' ORDER BY h.job) AS job,
        string_agg(DISTINCT h.job_name, ', ' ORDER BY h.job_name) AS job_name,
        string_agg(DISTINCT h.framework, ', ' ORDER BY h.framework) AS framework,
        bool_or(only_user IS NULL OR h.user_name = only_user) AS of_user,
        bool_or(only_project IS NULL OR h.project = only_project) AS of_project
    FROM allocations AS a JOIN holders AS h USING (holder_id)
    LEFT JOIN newest_samples AS l USING (gpu_id)
    LEFT JOIN rare AS r ON r.gpu_id = a.gpu_id AND r.holder_id = a.holder_id
    WHERE a.to_ts IS NULL OR a.to_ts >= (SELECT as_of FROM newest)
        OR (a.to_ts >= l.ts AND a.to_ts <= l.ts + to_milliseconds(l.width_ms))
    GROUP BY a.gpu_id
), out_of_service AS (
    SELECT gpu_id, max(state) AS state, max(reason) AS reason, min(from_ts) AS from_ts FROM withheld WHERE to_ts IS NULL GROUP BY gpu_id
), states AS (
    SELECT
        g.gpu_id, g.uuid, g.node, g.gpu_index, g.model, g.mig_profile, g.share_of_device, g.memory_total_bytes,
        h.gpu_id IS NOT NULL AS is_held, h.is_rare, h.rare_from, h.user_name, h.project, h.job, h.job_name, h.framework,
        l.* EXCLUDE (gpu_id), n.as_of, n.ticked_at, o.state AS withheld, o.reason AS withheld_reason, o.from_ts AS withheld_from,
        CASE
            WHEN l.ts IS NULL OR l.ts < n.as_of - to_milliseconds(2 * greatest(l.width_ms, 10000))
                OR l.ts < n.ticked_at - to_milliseconds(3 * greatest(l.width_ms, 10000)) THEN 'unknown'
            ELSE gpu_state(
                h.gpu_id IS NOT NULL, l.process_count, l.memory_used_bytes, g.memory_total_bytes, g.memory_free_bytes,
                l.utilization_e4, l.gpu_utilization_e4, l.graphics_active_e4, l.sm_active_e4, l.engines_e4, l.traffic_e4,
                l.power_mw, g.idle_power_mw, g.power_limit_mw, g.mig_profile)
        END AS state
    FROM gpus AS g
    CROSS JOIN newest AS n
    LEFT JOIN newest_samples AS l USING (gpu_id)
    LEFT JOIN held AS h ON h.gpu_id = g.gpu_id
    LEFT JOIN out_of_service AS o ON o.gpu_id = g.gpu_id AND h.gpu_id IS NULL
    WHERE g.installed_to IS NULL
        AND (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
        AND (only_user IS NULL OR h.of_user) AND (only_project IS NULL OR h.of_project)
)
SELECT * EXCLUDE (is_rare, rare_from) REPLACE (
    CASE
        WHEN withheld = 'unasked' AND state = 'free' THEN 'unknown'
        WHEN withheld <> 'unasked' AND state IN ('free', 'unknown') THEN withheld
        ELSE state
    END AS state),
    CASE WHEN is_rare AND state NOT IN ('unknown', 'suspect') THEN 'rarely-used' END AS rhythm,
    CASE WHEN rhythm IS NOT NULL THEN rare_from END AS rhythm_from
FROM states;

CREATE MACRO holder_rows(
    window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
WITH chosen AS (
    SELECT g.gpu_id, g.share_of_device, p.per_gpu_hour, p.currency,
        installed_ms(window_from, window_to, g.installed_from, g.installed_to) AS installed_ms,
        dense_rank() OVER (ORDER BY g.share_of_device, p.per_gpu_hour, p.currency)::INTEGER AS kind_id
    FROM gpus AS g JOIN gpu_prices AS p USING (gpu_id)
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
), kinds AS (
    SELECT DISTINCT kind_id, share_of_device, per_gpu_hour, currency FROM chosen
), rolled AS (
    SELECT
        holder_id, kind_id, sum(free_ms)::BIGINT AS free_ms, sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms,
        sum(held_idle_ms)::BIGINT AS held_idle_ms, sum(low_saturation_ms)::BIGINT AS low_saturation_ms,
        sum(moderate_ms)::BIGINT AS moderate_ms, sum(good_ms)::BIGINT AS good_ms,
        sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        coalesce(sum(used_ms) FILTER (rung = 1), 0)::BIGINT AS bound_used_ms,
        sum(engines_ms)::BIGINT AS engines_ms, sum(copied_ms)::BIGINT AS copied_ms, sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms,
        max(memory_used_max_bytes) AS memory_used_max_bytes
    FROM usage(window_from, window_to, hours_to, days_to) JOIN chosen USING (gpu_id)
    GROUP BY holder_id, kind_id
), totals AS (
    SELECT *, free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
        + suspect_ms + withheld_ms + unknown_ms AS total_ms
    FROM rolled
), missing AS (
    SELECT kind_id, sum(installed_ms)::BIGINT AS missing_ms FROM chosen GROUP BY ALL
    UNION ALL
    SELECT kind_id, -sum(total_ms)::BIGINT FROM totals GROUP BY ALL
), complete AS (
    SELECT * FROM totals
    UNION ALL BY NAME
    SELECT NULL::INTEGER AS holder_id, kind_id, 0 AS free_ms, 0 AS allocated_empty_ms,
        0 AS held_idle_ms, 0 AS low_saturation_ms, 0 AS moderate_ms, 0 AS good_ms, 0 AS suspect_ms, 0 AS withheld_ms,
        sum(missing_ms)::BIGINT AS unknown_ms, 0 AS held_ms, 0 AS measured_ms, 0 AS used_ms, 0 AS bound_used_ms,
        0 AS engines_ms, 0 AS copied_ms, sum(missing_ms)::BIGINT AS total_ms
    FROM missing GROUP BY ALL HAVING sum(missing_ms) > 0
)
SELECT
    c.* EXCLUDE (kind_id) REPLACE (coalesce(c.energy_ms, 0) AS energy_ms,
        coalesce(c.wasted_energy_ms, 0) AS wasted_energy_ms), k.* EXCLUDE (kind_id),
    c.allocated_empty_ms + c.held_idle_ms AS wasted_ms,
    h.job, h.job_name, h.user_name, h.project, h.framework, h.kind, h.command
FROM complete AS c
JOIN kinds AS k USING (kind_id)
LEFT JOIN holders AS h USING (holder_id)
WHERE (only_project IS NULL OR h.project = only_project) AND (only_user IS NULL OR h.user_name = only_user);

CREATE MACRO holds_at(at_ts) AS TABLE
WITH held_now AS (
    SELECT a.gpu_id, a.holder_id, sum(a.share) AS share
    FROM allocations AS a
    LEFT JOIN latest AS l ON l.gpu_id = a.gpu_id AND l.ts <= at_ts
        AND l.ts >= at_ts - to_milliseconds(2 * greatest(l.width_ms, 10000))
    WHERE a.from_ts <= at_ts AND (a.to_ts IS NULL OR a.to_ts > at_ts
        OR (a.to_ts >= l.ts AND a.to_ts <= l.ts + to_milliseconds(l.width_ms)))
    GROUP BY ALL
), spells AS (
    SELECT a.gpu_id, a.holder_id, a.from_ts, max(coalesce(a.to_ts, at_ts)) OVER earlier AS ended_ts
    FROM allocations AS a
    SEMI JOIN held_now AS n ON n.gpu_id = a.gpu_id AND n.holder_id = a.holder_id
    WHERE a.from_ts <= at_ts
    WINDOW earlier AS (
        PARTITION BY a.gpu_id, a.holder_id ORDER BY a.from_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), breaks AS (
    SELECT * FROM spells WHERE from_ts - ended_ts > INTERVAL 10 MINUTE AND from_ts - ended_ts <= INTERVAL 1 DAY
), looked AS (
    SELECT DISTINCT b.gpu_id, b.holder_id, b.from_ts
    FROM breaks AS b
    JOIN (
        SELECT gpu_id, ts AS since_ts, ts + INTERVAL 1 MINUTE AS until_ts FROM rollup_1m
        WHERE gpu_id IN (SELECT gpu_id FROM breaks) AND free_ms + allocated_empty_ms + held_idle_ms
            + low_saturation_ms + moderate_ms + good_ms + suspect_ms + withheld_ms > 0
        UNION ALL
        SELECT gpu_id, from_ts, coalesce(to_ts, at_ts) FROM allocations WHERE gpu_id IN (SELECT gpu_id FROM breaks)
    ) AS s ON s.gpu_id = b.gpu_id AND s.until_ts > b.ended_ts + INTERVAL 1 MINUTE
        AND s.since_ts < b.from_ts - INTERVAL 1 MINUTE
), began AS (
    SELECT s.gpu_id, s.holder_id, max(s.from_ts) AS from_ts
    FROM spells AS s
    LEFT JOIN looked AS k ON k.gpu_id = s.gpu_id AND k.holder_id = s.holder_id AND k.from_ts = s.from_ts
    WHERE s.ended_ts IS NULL OR s.from_ts - s.ended_ts > INTERVAL 1 DAY OR k.from_ts IS NOT NULL
    GROUP BY ALL
)
SELECT n.gpu_id, n.holder_id, n.share, b.from_ts
FROM held_now AS n JOIN began AS b USING (gpu_id, holder_id);

CREATE MACRO hours_for(step_s, hours_to) AS
    CASE WHEN step_s % 3600 = 0 THEN hours_to ELSE TIMESTAMP '1970-01-01' END;

-- A row a GPU. With a project or user: what they held of it, and no missing time, which nobody is known to have held.;

CREATE MACRO is_managed_node(managed, manager_cluster, node, host, cluster) AS
    split_part(managed, '.', 1) = split_part(coalesce(host, node), '.', 1)
    AND (host IS NULL OR lower(cluster) = lower(manager_cluster));

-- GPU-milliseconds held and idle, or held by nobody, a row a step, pool and holder. A pool are the GPUs of nodes in
-- the same partitions with the same types of GPUs. A GPU that is withheld is not free.;

CREATE MACRO idle_steps(window_from, window_to, hours_to) AS TABLE
WITH pooled AS (
    SELECT g.gpu_id, any_value(m.cluster) AS cluster, any_value(m.partitions) AS partitions,
        any_value(m.gpu_types) AS gpu_types, any_value(g.share_of_device) AS share
    FROM gpus AS g JOIN manager_nodes AS m ON is_managed_node(m.node, m.cluster, g.node, g.host, g.cluster)
    GROUP BY g.gpu_id HAVING count(DISTINCT m.cluster) = 1
)
SELECT
    time_bucket(to_seconds(beside_step_s(window_from, window_to)), u.ts, TIMESTAMP '1970-01-01') AS ts,
    cluster, partitions, gpu_types, u.holder_id, any_value(h.job) AS job, any_value(h.user_name) AS user_name,
    any_value(h.project) AS project,
    sum((allocated_empty_ms + held_idle_ms) * share) AS idle_ms, sum(free_ms * share) AS free_ms
FROM usage(window_from, window_to, hours_for(beside_step_s(window_from, window_to), hours_to), TIMESTAMP '1970-01-01') AS u
JOIN pooled USING (gpu_id)
LEFT JOIN holders AS h ON h.holder_id = u.holder_id
WHERE allocated_empty_ms + held_idle_ms + free_ms > 0
GROUP BY ALL;

CREATE MACRO told_in_small(job) AS
    CASE WHEN strpos(job, '@') = 0 THEN job
        ELSE concat(split_part(job, '@', 1), lower(substr(job, strpos(job, '@')))) END;

CREATE MACRO is_managed_as(managed_job, managed_user, job, user_name) AS
    managed_job = told_in_small(job) AND (managed_user IS NULL OR managed_user = user_name);

CREATE MACRO is_part_of_a_job(shown_id) AS coalesce(regexp_full_match(shown_id, '[0-9]+[_+][0-9]+'), false);

CREATE MACRO job_in(job, cluster) AS
    concat(job, '@', CASE WHEN regexp_full_match(cluster, '[0-9]+') THEN 'cluster-' ELSE '' END, lower(cluster));

-- An id as it is told, but for its cluster in small letters.;

CREATE MACRO kwh(mj, measured_ms, whole_ms) AS
    CASE WHEN measured_ms > 0 THEN coalesce(mj, 0) / 3600000000.0 WHEN coalesce(whole_ms, 0) = 0 THEN 0.0 END;

CREATE MACRO one_currency(currency) AS CASE WHEN min(currency) = max(currency) THEN min(currency) END;

CREATE MACRO sum_hours(ms, share) AS sum(ms * share) / 3600000.0;

CREATE MACRO sum_money(ms, share, per_gpu_hour, currency) AS
    CASE WHEN count(*) FILTER (WHERE ms > 0 AND per_gpu_hour IS NULL) = 0 AND min(currency) = max(currency)
        THEN sum(ms * share * coalesce(per_gpu_hour, 0)) / 3600000.0 END;

-- Bounds of a window of whole minutes: the whole hours and the whole UTC days in it, as far as they are complete.;

CREATE MACRO ratio_of(part, whole) AS
    CASE WHEN whole > 0 THEN least(1.0, part / whole) END;

-- As before, and never more than all: of several who share a GPU one may use more of it than the share that it was given,
-- and its time is the ledger's, so that its use came out as some hundred percent; and
-- NULL where nothing was measured.;

CREATE MACRO sum_ratio(part_ms, whole_ms, share) AS
    ratio_of(sum(part_ms * share), sum(whole_ms * share));

CREATE MACRO ledger_by_hardware(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM gpu_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column;

CREATE MACRO ledger_by_holder(
    key_column, window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    key_column AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM holder_rows(window_from, window_to, hours_to, days_to, only_node, only_project, only_user, only_model)
GROUP BY key_column, holder_id IS NULL;

CREATE MACRO step_start(ts, window_from, step_s) AS
    greatest(window_from, time_bucket(to_seconds(step_s), ts, TIMESTAMP '1970-01-01'));

-- What a GPU-hour of each GPU costs; NULL without a price. The model '*' prices what has no row of its own.;

CREATE MACRO ledger_steps(
    window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model
) AS TABLE
WITH chosen AS (
    SELECT g.gpu_id, g.share_of_device, p.per_gpu_hour, p.currency, g.installed_from, g.installed_to,
        dense_rank() OVER (ORDER BY g.share_of_device, p.per_gpu_hour, p.currency)::INTEGER AS kind_id
    FROM gpus AS g JOIN gpu_prices AS p USING (gpu_id)
    WHERE (only_node IS NULL OR g.node = only_node) AND (only_model IS NULL OR g.model = only_model)
), rows AS (
    SELECT
        u.ts, kind_id, sum(free_ms + allocated_empty_ms + held_idle_ms + low_saturation_ms + moderate_ms + good_ms
            + suspect_ms + withheld_ms + unknown_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        (sum(used_ms) FILTER (rung = 1))::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(coalesce(allocated_empty_energy_mj, 0) + coalesce(held_idle_energy_mj, 0)) AS wasted_energy_mj,
        sum(wasted_energy_ms) AS wasted_energy_ms
    FROM usage_of(window_from, window_to, hours_for(step_s, hours_to), days_for(step_s, days_to),
        only_project, only_user) AS u
    JOIN chosen USING (gpu_id)
    GROUP BY u.ts, kind_id
), rolled AS (
    SELECT
        step_start(ts, window_from, step_s) AS ts, kind_id, sum(rolled_ms)::BIGINT AS rolled_ms,
        sum(allocated_empty_ms)::BIGINT AS allocated_empty_ms, sum(held_idle_ms)::BIGINT AS held_idle_ms,
        sum(low_saturation_ms)::BIGINT AS low_saturation_ms, sum(moderate_ms)::BIGINT AS moderate_ms,
        sum(good_ms)::BIGINT AS good_ms, sum(suspect_ms)::BIGINT AS suspect_ms, sum(withheld_ms)::BIGINT AS withheld_ms,
        sum(unknown_ms)::BIGINT AS unknown_ms,
        sum(held_ms)::BIGINT AS held_ms, sum(measured_ms)::BIGINT AS measured_ms, sum(used_ms)::BIGINT AS used_ms,
        sum(bound_used_ms)::BIGINT AS bound_used_ms,
        sum(energy_mj) AS energy_mj, sum(energy_ms) AS energy_ms,
        sum(wasted_energy_mj) AS wasted_energy_mj, sum(wasted_energy_ms) AS wasted_energy_ms
    FROM rows
    GROUP BY ALL
), spells AS (
    SELECT
        kind_id, share_of_device, per_gpu_hour, currency, greatest(installed_from, window_from) AS installed_from,
        CASE WHEN installed_to < window_to THEN installed_to END AS installed_to, count(*) AS gpus
    FROM chosen GROUP BY ALL
), installed AS (
    SELECT s.ts, s.step_ms, kind_id, share_of_device, per_gpu_hour, currency, sum(gpus * installed_ms(
        s.ts, s.ts + to_milliseconds(s.step_ms), installed_from, installed_to))::BIGINT AS installed_ms
    FROM steps(window_from, window_to, step_s) AS s, spells
    GROUP BY ALL
), totals AS (
    SELECT i.*, r.* EXCLUDE (ts, kind_id, rolled_ms), coalesce(r.rolled_ms, 0) AS rolled_ms
    FROM installed AS i
    LEFT JOIN rolled AS r USING (ts, kind_id)
), completed AS (
    SELECT *, CASE WHEN only_project IS NULL AND only_user IS NULL
        THEN greatest(0, installed_ms - rolled_ms) ELSE 0 END AS missing_ms
    FROM totals
)
SELECT
    ts, step_ms, share_of_device, per_gpu_hour, currency, missing_ms, rolled_ms + missing_ms AS total_ms,
    coalesce(rolled_ms - allocated_empty_ms - held_idle_ms - low_saturation_ms - moderate_ms - good_ms - suspect_ms
        - withheld_ms - unknown_ms, 0) AS free_ms,
    coalesce(allocated_empty_ms, 0) AS allocated_empty_ms,
    coalesce(held_idle_ms, 0) AS held_idle_ms, coalesce(low_saturation_ms, 0) AS low_saturation_ms,
    coalesce(moderate_ms, 0) AS moderate_ms, coalesce(good_ms, 0) AS good_ms, coalesce(suspect_ms, 0) AS suspect_ms,
    coalesce(withheld_ms, 0) AS withheld_ms,
    coalesce(unknown_ms, 0) + missing_ms AS unknown_ms, coalesce(held_ms, 0) AS held_ms,
    coalesce(measured_ms, 0) AS measured_ms, coalesce(used_ms, 0) AS used_ms,
    coalesce(bound_used_ms, 0) AS bound_used_ms,
    energy_mj, coalesce(energy_ms, 0) AS energy_ms, wasted_energy_mj, coalesce(wasted_energy_ms, 0) AS wasted_energy_ms,
    coalesce(allocated_empty_ms, 0) + coalesce(held_idle_ms, 0) AS wasted_ms
FROM completed;

CREATE MACRO ledger_by_step(
    window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model
) AS TABLE
SELECT
    ts AS key, sum_hours(total_ms, share_of_device) AS gpu_hours,
    sum_hours(held_ms, share_of_device) AS held_gpu_hours, sum_hours(used_ms, share_of_device) AS used_gpu_hours,
    sum_hours(bound_used_ms, share_of_device) AS bound_used_gpu_hours,
    sum_hours(free_ms, share_of_device) AS free_gpu_hours,
    sum_hours(allocated_empty_ms, share_of_device) AS allocated_empty_gpu_hours,
    sum_hours(held_idle_ms, share_of_device) AS held_idle_gpu_hours,
    sum_hours(low_saturation_ms, share_of_device) AS low_saturation_gpu_hours,
    sum_hours(moderate_ms, share_of_device) AS moderate_gpu_hours,
    sum_hours(good_ms, share_of_device) AS good_gpu_hours,
    sum_hours(suspect_ms, share_of_device) AS suspect_gpu_hours,
    sum_hours(withheld_ms, share_of_device) AS withheld_gpu_hours,
    sum_hours(unknown_ms, share_of_device) AS unknown_gpu_hours,
    sum_ratio(used_ms, measured_ms, share_of_device) AS utilization_ratio,
    sum_hours(wasted_ms, share_of_device) AS wasted_gpu_hours,
    sum_money(total_ms, share_of_device, per_gpu_hour, currency) AS cost,
    sum_money(wasted_ms, share_of_device, per_gpu_hour, currency) AS wasted_cost,
    one_currency(currency) AS currency, energy_kwh(energy_mj, energy_ms, total_ms) AS energy_kwh,
    sum_ratio(energy_ms, total_ms, share_of_device) AS energy_known_ratio,
    energy_kwh(wasted_energy_mj, wasted_energy_ms, wasted_ms) AS wasted_energy_kwh,
    sum_ratio(wasted_energy_ms, wasted_ms, share_of_device) AS wasted_energy_known_ratio
FROM ledger_steps(window_from, window_to, hours_to, days_to, step_s, only_node, only_project, only_user, only_model)
GROUP BY ts;

CREATE MACRO main_state(
    free_ms, allocated_empty_ms, held_idle_ms, low_ms, moderate_ms, good_ms, suspect_ms, withheld_ms, unknown_ms
) AS
    CASE greatest(
        free_ms, allocated_empty_ms, held_idle_ms, low_ms, moderate_ms, good_ms, suspect_ms, withheld_ms, unknown_ms)
        WHEN good_ms THEN 'good' WHEN moderate_ms THEN 'moderate' WHEN low_ms THEN 'low-saturation'
        WHEN held_idle_ms THEN 'held-idle' WHEN allocated_empty_ms THEN 'allocated-empty'
        WHEN free_ms THEN 'free' WHEN withheld_ms THEN 'withheld' WHEN suspect_ms THEN 'suspect' ELSE 'unknown' END;

-- A row a GPU. With a project or user: what they held of it, and no missing time, which nobody is known to have held.;

CREATE VIEW manager_keys AS
WITH told AS (
    SELECT job, cluster, partition, qos, project, started_at, submitted_at, restarts FROM manager_jobs
    UNION ALL
    SELECT concat(manager, ':', shown_id), cluster, partition, qos, project, started_at, submitted_at, restarts
    FROM manager_jobs WHERE is_part_of_a_job(shown_id)
), shown AS (
    SELECT
        job, cluster, nullif(partition, '') AS partition, nullif(qos, '') AS qos, project AS account,
        row_number() OVER (
            PARTITION BY job ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC, cluster) AS place,
        row_number() OVER (
            PARTITION BY job, cluster ORDER BY started_at IS NULL, submitted_at DESC, restarts DESC) AS place_there
    FROM told
), runs AS (
    SELECT concat(manager, ':', number) AS job, user_name, cluster, partition, qos, project, started_at FROM accounted_runs
    UNION ALL
    SELECT concat(manager, ':', shown_id), user_name, cluster, partition, qos, project, started_at
    FROM accounted_runs WHERE is_part_of_a_job(shown_id)
), past AS (
    SELECT
        job, user_name, cluster,
        arg_max(nullif(partition, ''), started_at) AS partition, arg_max(nullif(qos, ''), started_at) AS qos,
        arg_max(project, started_at) AS account
    FROM runs
    WHERE started_at IS NOT NULL AND user_name IS NOT NULL
    GROUP BY ALL
), of_one_cluster AS (
    SELECT job, user_name FROM past GROUP BY ALL HAVING count(*) = 1
)
SELECT job AS managed_job, NULL::VARCHAR AS managed_user, cluster, partition, qos, account FROM shown WHERE place = 1
UNION ALL
SELECT job, user_name, cluster, partition, qos, account FROM past SEMI JOIN of_one_cluster USING (job, user_name)
WHERE job NOT IN (SELECT job FROM shown)
UNION ALL
SELECT job_in(job, cluster), NULL, cluster, partition, qos, account FROM shown WHERE place_there = 1
UNION ALL
SELECT job_in(job, cluster), user_name, cluster, partition, qos, account FROM past
WHERE job_in(job, cluster) NOT IN (SELECT job_in(job, cluster) FROM shown);

CREATE MACRO part_of(amount, lower_fraction, upper_fraction) AS
    CAST(round(amount * upper_fraction) - round(amount * lower_fraction) AS BIGINT);

-- Days that left the hot table for a Parquet file; path is relative to the data folder.;

CREATE VIEW samples_all AS SELECT * FROM samples;

CREATE MACRO short_node(node) AS regexp_replace(node, '^([^.@]*)\.[^@]*', '\1');

-- Whether a manager's node is that of a GPU: of one whose name bears its cluster, if it is the manager's own.;

CREATE MACRO still_held(to_ts, newest_ts, newest_width_ms) AS
    to_ts IS NULL
    OR coalesce(to_ts >= newest_ts AND to_ts <= newest_ts + to_milliseconds(newest_width_ms), false);

CREATE MACRO waiting_steps(window_from, window_to, only_cause) AS TABLE
WITH looked AS (
    SELECT manager, cluster, max(ts) AS as_of FROM manager_looks GROUP BY ALL
), spans AS (
    SELECT
        cluster, partition, gpu_type, user_name, project, qos, CASE WHEN only_cause <> 'resources' THEN reason END AS why,
        gpus, epoch_ms(greatest(from_ts, window_from)) AS s_ms,
        epoch_ms(least(coalesce(to_ts, as_of), window_to)) AS e_ms,
        beside_step_s(window_from, window_to) * 1000 AS step_ms
    FROM manager_waits JOIN looked USING (manager, cluster)
    WHERE cause = only_cause AND from_ts < window_to AND coalesce(to_ts, as_of) > window_from
), kinds AS (
    SELECT *, dense_rank() OVER (ORDER BY cluster, partition, gpu_type, user_name, project, qos, why) AS wait_id,
        s_ms // step_ms * step_ms AS first_ms, e_ms // step_ms * step_ms AS last_ms
    FROM spans WHERE e_ms > s_ms
), edges AS (
    SELECT wait_id, first_ms AS at_ms, gpus * (least(e_ms, first_ms + step_ms) - s_ms) AS once, 0 AS level, step_ms
    FROM kinds
    UNION ALL
    SELECT wait_id, first_ms + step_ms, 0, gpus, step_ms FROM kinds WHERE last_ms > first_ms
    UNION ALL
    SELECT wait_id, last_ms, gpus * (e_ms - last_ms), -gpus, step_ms FROM kinds WHERE last_ms > first_ms
), summed AS (
    SELECT wait_id, at_ms, step_ms, sum(once)::BIGINT AS once, sum(level)::BIGINT AS change FROM edges GROUP BY ALL
), levels AS (
    SELECT wait_id, at_ms, step_ms, once, sum(change) OVER later::BIGINT AS level,
        coalesce(lead(at_ms) OVER later, at_ms + step_ms) AS next_ms
    FROM summed WINDOW later AS (PARTITION BY wait_id ORDER BY at_ms)
), filled AS (
    SELECT wait_id, at_ms, step_ms, once, level,
        unnest(CASE WHEN level > 0 THEN range(at_ms, next_ms, step_ms) ELSE [at_ms] END) AS step_at
    FROM levels
)
SELECT
    make_timestamp(step_at * 1000) AS ts, wait_id, k.*,
    level * step_ms + CASE WHEN step_at = at_ms THEN once ELSE 0 END AS asked_ms
FROM filled JOIN (
    SELECT DISTINCT wait_id, cluster, partition, gpu_type, user_name, project, qos, why FROM kinds
) AS k USING (wait_id)
WHERE level > 0 OR once > 0;

-- GPU-milliseconds held and idle, or held by nobody, a row a step, pool and holder. A pool are the GPUs of nodes in
-- the same partitions with the same types of GPUs. A GPU that is withheld is not free.;

CREATE MACRO waits_beside(window_from, window_to, hours_to, only_cause, is_free) AS TABLE
WITH waits AS (
    SELECT * FROM waiting_steps(window_from, window_to, only_cause)
), idle AS (
    SELECT ts, cluster, partitions, gpu_types, user_name, CASE WHEN is_free THEN free_ms ELSE idle_ms END AS ms
    FROM idle_steps(window_from, window_to, hours_to)
    WHERE CASE WHEN is_free THEN free_ms ELSE idle_ms END > 0
), pools AS (
    SELECT ts, cluster, partitions, gpu_types, sum(ms) AS pool_ms FROM idle GROUP BY ALL
), fits AS (
    SELECT w.partition, w.gpu_type, p.cluster, p.partitions, p.gpu_types
    FROM (SELECT DISTINCT cluster, partition, gpu_type FROM waits) AS w
    JOIN (SELECT DISTINCT cluster, partitions, gpu_types FROM pools) AS p ON p.cluster = w.cluster
    WHERE list_has_any(string_split(w.partition, ','), string_split(p.partitions, ','))
        AND (w.gpu_type = '' OR list_has_any(string_split(w.gpu_type, ','), string_split(p.gpu_types, ',')))
), offers AS (
    SELECT w.ts, w.wait_id, w.asked_ms, w.user_name, w.project, p.cluster, p.partitions, p.gpu_types, p.pool_ms,
        p.pool_ms * w.asked_ms / sum(w.asked_ms) OVER (PARTITION BY p.ts, p.cluster, p.partitions, p.gpu_types) AS offer_ms
    FROM waits AS w
    JOIN fits AS f ON f.cluster = w.cluster AND f.partition = w.partition AND f.gpu_type = w.gpu_type
    JOIN pools AS p ON p.ts = w.ts AND p.cluster = f.cluster AND p.partitions = f.partitions
        AND p.gpu_types = f.gpu_types
), taken AS (
    SELECT *, offer_ms * least(1, asked_ms / sum(offer_ms) OVER (PARTITION BY ts, wait_id)) AS beside_ms FROM offers
), own AS (
    SELECT ts, cluster, partitions, gpu_types, user_name, sum(ms) AS own_ms
    FROM idle WHERE user_name IS NOT NULL GROUP BY ALL
)
SELECT
    t.ts, t.wait_id, t.cluster, t.partitions, t.gpu_types, t.user_name, t.project, t.pool_ms, t.beside_ms,
    t.beside_ms * (1 - coalesce(own_ms, 0) / pool_ms) AS others_ms
FROM taken AS t
LEFT JOIN own AS o ON o.ts = t.ts AND o.cluster = t.cluster AND o.partitions = t.partitions
    AND o.gpu_types = t.gpu_types AND o.user_name = t.user_name;

INSERT INTO newest_tick VALUES (NULL);

INSERT INTO schema_migrations (number, name) VALUES
    (1, 'telemetry'),
    (2, 'states'),
    (20, 'hours_and_money'),
    (21, 'ledger'),
    (22, 'now'),
    (23, 'patterns_and_unjudged'),
    (24, 'why_a_pattern_is_unknown'),
    (25, 'intrusions'),
    (26, 'unlisted'),
    (27, 'acting'),
    (28, 'steady_moments'),
    (29, 'foreign'),
    (30, 'days'),
    (31, 'alerts'),
    (32, 'consents'),
    (33, 'latest_where_it_lies'),
    (34, 'judged'),
    (35, 'worked_minutes'),
    (36, 'pairs'),
    (37, 'unproven_claims'),
    (43, 'origin_and_newest_tick'),
    (44, 'listens'),
    (45, 'engines_and_presence'),
    (48, 'unnamed_is_not_nobody'),
    (50, 'holds'),
    (51, 'withheld'),
    (52, 'energy_and_withheld'),
    (54, 'mig_numbers'),
    (56, 'alert_marks'),
    (57, 'cuts'),
    (58, 'verbs'),
    (59, 'holder_samples'),
    (60, 'managers'),
    (61, 'accounted_runs'),
    (64, 'manager_keys'),
    (65, 'manager_waits'),
    (66, 'steps_beside'),
    (69, 'owner_words'),
    (70, 'manager_acts'),
    (71, 'doubted_counters'),
    (72, 'harvests'),
    (73, 'what_nobody_was_given'),
    (74, 'video_is_use'),
    (75, 'node_marks'),
    (76, 'node_spools'),
    (77, 'one_end_of_a_hold'),
    (78, 'head_terms'),
    (80, 'thin_work'),
    (81, 'copies_are_work'),
    (82, 'upper_bounds'),
    (89, 'archived_days'),
    (90, 'limits_with_numbers'),
    (93, 'users_by_accounting'),
    (96, 'keys_by_cluster'),
    (98, 'rhythm_of_now'),
    (99, 'limits_of_waits'),
    (100, 'power_of_small_boards'),
    (101, 'cluster_of_a_node'),
    (102, 'nodes_of_managers'),
    (103, 'judged_pasts'),
    (104, 'keys_of_parts'),
    (105, 'power_beside_high_idle_power'),
    (106, 'past_judged_in_part'),
    (107, 'hook_acts'),
    (108, 'breaks_of_a_day'),
    (109, 'no_break_no_minutes');
