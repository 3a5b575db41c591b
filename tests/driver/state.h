/* The stand-in driver's state: one memory-mapped file that tests change while clients read it.
 *
 * tests/driver/layout.py mirrors these structs with ctypes; the driver refuses a file whose `size` is not
 * its own sizeof(state_t), so the two cannot drift apart unnoticed. Fields are ordered so that no compiler
 * needs to add padding. Text is zero-terminated. */
#ifndef FALLOW_STATE_H
#define FALLOW_STATE_H
#include <stdint.h>

enum {
    STATE_MAGIC = 0x574c4c46,
    MAX_GPUS = 16,
    MAX_INSTANCES = 8,
    MAX_PROCESSES = 64,
    RING_SIZE = 128,
    RINGS = 4, /* GPU, memory controller, encoder, decoder */
    MAX_PROCESS_SAMPLES = 128,
    GPM_METRICS = 16, /* indexed by NVML's metric id */
    MAX_FAULTS = 64,
    MAX_FUNCTIONS = 128,
    MAX_EVENTS = 64,
};

typedef struct {
    uint64_t ts_us;
    uint32_t value;
    uint32_t spare;
} ring_sample_t;

typedef struct {
    uint64_t memory; /* UINT64_MAX: not available */
    uint32_t pid;
    uint32_t kind; /* 1 compute, 2 graphics, 3 both, 4 client of an MPS server */
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t sm; /* used while auto_process_samples is on */
    uint32_t spare;
} process_t;

typedef struct {
    uint64_t ts_us;
    uint32_t pid;
    uint32_t sm;
    uint32_t memory;
    uint32_t encoder;
    uint32_t decoder;
    uint32_t spare;
} process_sample_t;

typedef struct {
    char uuid[96];
    char profile[32];
    uint32_t present;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t gpu_slices;
    uint32_t compute_slices;
    uint32_t spare;
    uint64_t memory_total;
    uint64_t memory_reserved;
    uint64_t memory_used;
    double gpm[GPM_METRICS];
} instance_t;

typedef struct {
    char uuid[96];
    char name[96];
    char bus_id[32];
    uint64_t memory_total;
    uint64_t memory_reserved;
    uint64_t memory_used; /* without what the driver reserves, as memory v2 says it */
    uint64_t energy_mj;
    uint64_t ecc_corrected;
    uint64_t ecc_uncorrected;
    uint64_t throttle_reasons;
    uint32_t lost;             /* every call on the handle answers GPU_IS_LOST */
    uint32_t lost_handle_code; /* what fetching the handle answers while lost; 0: the handle is given */
    uint32_t crash_when_lost;  /* abort when a handle that was reported lost is used again */
    uint32_t persistence;
    uint32_t utilization;
    uint32_t memory_utilization;
    uint32_t encoder;
    uint32_t decoder;
    uint32_t jpeg;
    uint32_t ofa;
    uint32_t temperature;
    uint32_t sm_clock;
    uint32_t memory_clock;
    uint32_t power_mw;
    uint32_t power_limit_mw;
    uint32_t mig_mode; /* 0 off, 1 on, 2 not supported */
    uint32_t mig_max;
    uint32_t gpm_supported;
    uint32_t events_supported;
    uint32_t process_layout; /* 0 as documented, 1 R535's 32-byte structs, 2 pid and memory swapped */
    uint32_t auto_ring_us;   /* not 0: the rings hold a sample of the present value each so many us */
    uint32_t auto_process_samples;
    uint32_t empty_is_success; /* process utilization without entries answers SUCCESS, not NOT_FOUND */
    uint32_t ring_count[RINGS];
    uint32_t process_count;
    uint32_t process_sample_count;
    uint32_t spare;
    double gpm[GPM_METRICS]; /* percent; below 0: this metric is not supported */
    ring_sample_t rings[RINGS][RING_SIZE];
    process_t processes[MAX_PROCESSES];
    process_sample_t process_samples[MAX_PROCESS_SAMPLES];
    instance_t instances[MAX_INSTANCES];
} gpu_t;

typedef struct {
    char function[64]; /* or "field:N" for one field of nvmlDeviceGetFieldValues; empty: unused slot */
    int32_t gpu;       /* -1: any */
    int32_t code;      /* nvmlReturn; 0: only the delay; -1 abort; -2 segfault */
    int32_t remaining; /* -1: for ever */
    uint32_t delay_us;
} fault_t;

typedef struct {
    uint64_t type;
    uint64_t data;
    uint32_t gpu;
    uint32_t gpu_instance;
    uint32_t compute_instance;
    uint32_t spare;
} event_t;

typedef struct {
    char name[64];
    uint64_t total;
    uint64_t per_gpu[MAX_GPUS];
} function_t;

typedef struct {
    uint32_t magic;
    uint32_t size;
    uint64_t clock_us; /* 0: the machine's clock */
    uint64_t clock_since_us;
    double clock_speed; /* above 0: since then the machine's clock runs so many times as fast */
    char driver_version[80];
    char nvml_version[80];
    uint32_t cuda_version;
    uint32_t gpu_count;
    uint32_t order[MAX_GPUS]; /* which slot stands at which index */
    uint64_t event_count;     /* events ever; the newest MAX_EVENTS are kept */
    event_t events[MAX_EVENTS];
    fault_t faults[MAX_FAULTS];
    function_t functions[MAX_FUNCTIONS];
    gpu_t gpus[MAX_GPUS];
} state_t;
#endif
