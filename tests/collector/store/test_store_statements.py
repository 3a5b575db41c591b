"""Every statement of the store takes the parameters that its header names, and no others."""

import re
from pathlib import Path

import pytest

from collector.store.statements import statement

FOLDER = Path(__file__).parents[3] / "collector" / "store" / "sql"
PARAMETERS = {
    "add_intrusion": "from_ms gpu_id process_id to_ms",
    "add_told_latest": "",
    "apart": "",
    "begin_cut": "from_ms uuid",
    "clear_ahead_allocations": "at_ms",
    "clear_apart": "",
    "clear_days": "from_ms gpu_ids to_ms",
    "clear_hot": "from_ms to_ms",
    "clear_hours": "from_ms gpu_ids to_ms",
    "clear_judged": "",
    "clear_latest_times": "",
    "clear_merged_allocations": "",
    "clear_minutes": "from_ms gpu_ids to_ms",
    "clear_patterns": "",
    "clear_unjudged": "",
    "clear_worked_minutes": "from_ms gpu_ids to_ms",
    "close_allocations": "to_ms",
    "close_intrusions": "gpu_id process_id to_ms",
    "close_unclear_claims": "process_id reason to_ms",
    "close_findings": "at_ms finding_ids",
    "count_hot": "from_ms to_ms",
    "count_hours": "from_ms to_ms",
    "drop_sealed": "before_ms",
    "ends_in_span": "after_ms to_ms",
    "end_cut": "former to_ms uuid",
    "end_installed": "at_last_sample to_ms uuid",
    "expire_alerts": "before_ms",
    "expire_allocations": "before_ms",
    "expire_days": "before_ms",
    "expire_directives": "before_ms",
    "expire_events": "before_ms",
    "expire_findings": "before_ms",
    "expire_gaps": "before_ms",
    "expire_holder_samples": "before_ms",
    "expire_hours": "before_ms",
    "expire_intents": "before_ms",
    "expire_intrusions": "before_ms",
    "expire_keeps": "before_ms",
    "expire_undelivered": "before_ms",
    "expire_harvests": "before_ms",
    "expire_leases": "before_ms",
    "expire_jobs": "before_ms",
    "expire_consents": "before_ms",
    "expire_checkpoints": "before_ms",
    "expire_letters": "before_ms",
    "expire_unclear_claims": "before_ms",
    "expire_minutes": "before_ms",
    "expire_plans": "before_ms",
    "expire_process_samples": "before_ms",
    "expire_samples": "before_ms",
    "expire_tellings": "before_ms",
    "expire_unproven_claims": "before_ms",
    "expire_ticks": "before_ms",
    "expire_worked_minutes": "before_ms",
    "expired_sealed": "before_ms",
    "export_allocations": "from_ms to_ms",
    "export_gpus": "",
    "export_holder_samples": "from_ms to_ms",
    "export_samples": "from_ms to_ms",
    "extend_gap": "from_ms gpu_id node reason source to_ms",
    "file_size": "",
    "first_hour": "",
    "first_kept_day": "",
    "forget_sealed": "day",
    "gpu_standings": "",
    "make_former": "former to_ms uuid",
    "mark_worked_minutes": "from_ms gpu_ids to_ms",
    "hot_days": "before_ms",
    "imported_ranges": "origin",
    "insert_event": "at_ms detail gpu_id kind",
    "insert_gap": "from_ms gpu_id node reason source to_ms",
    "insert_gpus": "",
    "insert_history": "from_ms kept_ms to_ms",
    "insert_holder_samples": "",
    "insert_past_holder_samples": "from_ms to_ms",
    "insert_holders": "",
    "insert_late_samples": "from_ms kept_ms to_ms",
    "insert_latest_times": "times_ms",
    "insert_patterns": "at_ms evidence holder_ids kinds reasons window_from_ms window_to_ms",
    "insert_process_samples": "",
    "insert_processes": "",
    "insert_samples": "",
    "insert_ticks": "at_ms duration_ms gpus reason source",
    "insert_unjudged": "at_ms gpu_id holder_id kinds reason verdict",
    "install_again": "uuid",
    "install_earlier": "",
    "keep_latest": "from_ms to_ms",
    "known_cuts": "",
    "known_gpus": "",
    "known_holders": "jobs",
    "known_processes": "nodes pids started",
    "last_ticks": "",
    "latest_times": "",
    "learn_free_memory": "from_ms to_ms",
    "learn_idle_power": "from_ms to_ms",
    "merge_allocations": "gap_ms",
    "newest_samples": "",
    "newest_tick": "",
    "note_judged": "at_ms",
    "note_import": "from_ms origin rows_added to_ms",
    "open_allocations": "from_ms",
    "open_finding": (
        "at_ms coverage evidence gpu_id holder_id kind rung sentence wasted_gpu_hours "
        "window_from_ms window_to_ms"
    ),
    "open_unclear_claims": "from_ms process_ids reasons",
    "open_findings": "",
    "origin": "",
    "forget_manager_jobs": "",
    "insert_manager_jobs": "",
    "open_manager_jobs": "",
    "forget_manager_nodes": "cluster manager",
    "insert_manager_nodes": "",
    "insert_manager_look": (
        "at_ms cluster doubted_nodes given_gpus gpus manager nodes pending running took_ms"
    ),
    "known_runs": "manager since_ms",
    "expire_manager_jobs": "before_ms",
    "expire_manager_looks": "before_ms",
    "expire_manager_waits": "before_ms",
    "forget_manager_reservations": "cluster manager",
    "insert_manager_reservations": "",
    "open_manager_waits": "",
    "newest_manager_looks": "",
    "insert_manager_waits": "",
    "close_manager_waits": "",
    "insert_accounted_runs": "",
    "forget_unmeasured_runs": "",
    "expire_accounted_runs": "before_ms",
    "close_withheld": "gpu_ids to_ms",
    "open_withheld": "from_ms gpu_ids reasons states",
    "expire_withheld": "before_ms",
    "given_out": "since_ms",
    "reopen_allocations": "from_ms",
    "open_leases": "",
    "own_processes": "",
    "raise_watermark": "complete_to_ms name",
    "read_day": "from_ms to_ms",
    "record_sealed": "bytes day path samples widest_ms",
    "refresh_finding": (
        "at_ms coverage evidence finding_id rung sentence wasted_gpu_hours window_from_ms window_to_ms"
    ),
    "rollup_days": "from_ms gpu_ids to_ms",
    "rollup_hours": "from_ms gpu_ids to_ms",
    "rollup_minutes": "from_ms gpu_ids read_from_ms read_to_ms to_ms",
    "room_on_board": "since_ms uuid",
    "rows_not_hot": "path",
    "sampled_hours": "from_ms gpu_ids to_ms",
    "sealed_of_day": "day",
    "see_holders": "at_ms",
    "set_apart": "",
    "set_back_allocations": "at_ms",
    "set_newest_tick": "at_ms",
    "set_origin": "at_ms origin",
    "set_source": "source uuids",
    "set_unlisted": "unlisted_ms uuid",
    "set_watermark": "complete_to_ms name",
    "simulated_gpus": "",
    "touch_holders": "at_ms",
    "update_gpu": (
        "compute_instance driver_version gpu_instance index memory_total_bytes mig_profile model node "
        "parent_uuid persistence_mode power_limit_mw share_of_device uuid"
    ),
    "update_holder": "command framework job kind name project user",
    "update_process": (
        "command container environment_keys environment_values frameworks listens node notebook "
        "parent_pid pid pod pod_namespace process_id process_name slurm_job started_ms uid "
        "unreadable user_name"
    ),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.sql")))
def test_parameters_are_those_the_header_names(name: str) -> None:
    lines = statement(name).splitlines()
    header = "\n".join(line for line in lines if line.startswith("--"))
    body = "\n".join(line for line in lines if not line.startswith("--"))
    used = sorted(set(re.findall(r"\$(\w+)", body)))
    assert name in PARAMETERS, f"{name}.sql has no line in this table"
    assert used == PARAMETERS[name].split()
    for parameter in PARAMETERS[name].split():
        assert re.search(rf"\b{parameter}\b", header), f"{name}: the header does not name {parameter}"
