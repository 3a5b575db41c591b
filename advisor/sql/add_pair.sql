-- Writes down two jobs on one GPU, once. Parameters: host, guest, gpu_model, host_profile, guest_profile, at_ms (UTC ms),
-- host_alone, guest_alone (steps a second, NULL: not measured), gain_expected (GPUs).
INSERT INTO pairs (
    host, guest, gpu_model, host_profile, guest_profile, since, host_alone, guest_alone, gain_expected)
VALUES (
    $host, $guest, $gpu_model, $host_profile, $guest_profile, epoch_ms(CAST($at_ms AS BIGINT)),
    $host_alone, $guest_alone, $gain_expected)
ON CONFLICT DO NOTHING;
