/* The stand-in driver's process lists, process utilization, MIG instances and event sets. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

enum { COMPUTE = 1, GRAPHICS = 2, MPS = 4 };

typedef struct {
    unsigned pid;
    uint64_t memory;
    unsigned gpu_instance, compute_instance;
} listed_t;

typedef struct {
    unsigned pid;
    uint64_t memory;
    unsigned gpu_instance, compute_instance;
    uint64_t protected_memory;
} listed_r535_t;

static int belongs(const handle_t *handle, const process_t *process, unsigned kind) {
    if (!(process->kind & kind)) return 0;
    if (handle->instance < 0) return 1;
    const instance_t *part = instance_of(handle);
    return process->gpu_instance == part->gpu_instance && process->compute_instance == part->compute_instance;
}

static void write_entry(char *out, unsigned at, const process_t *process, unsigned layout) {
    listed_r535_t entry = {process->pid, process->memory, process->gpu_instance, process->compute_instance, 0};
    if (layout == 2) {
        entry.pid = (unsigned)process->memory;
        entry.memory = process->pid;
    }
    unsigned stride = layout == 1 ? sizeof(listed_r535_t) : sizeof(listed_t);
    memcpy(out + (size_t)at * stride, &entry, stride);
}

static ret_t list(const handle_t *handle, unsigned kind, unsigned *count, void *out) {
    const gpu_t *gpu = gpu_of(handle);
    unsigned held = 0;
    for (unsigned i = 0; i < gpu->process_count; i++) held += belongs(handle, &gpu->processes[i], kind);
    unsigned room = out ? *count : 0;
    *count = held;
    if (held > room) return INSUFFICIENT_SIZE;
    unsigned at = 0;
    for (unsigned i = 0; i < gpu->process_count; i++)
        if (belongs(handle, &gpu->processes[i], kind))
            write_entry(out, at++, &gpu->processes[i], gpu->process_layout);
    return SUCCESS;
}

#define LIST(NAME, KIND)                                                        \
    EXPORT ret_t NAME(handle_t *handle, unsigned *count, void *out) {           \
        ENTER(handle);                                                          \
        return list(handle, KIND, count, out);                                  \
    }

LIST(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
#ifndef OLD_DRIVER
LIST(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)
#endif

typedef struct {
    unsigned pid;
    uint64_t ts_us;
    unsigned sm, memory, encoder, decoder;
} used_t;

static unsigned present_samples(const gpu_t *gpu, process_sample_t *out) {
    if (!gpu->auto_process_samples) {
        memcpy(out, gpu->process_samples, sizeof gpu->process_samples);
        return gpu->process_sample_count;
    }
    for (unsigned i = 0; i < gpu->process_count; i++)
        out[i] = (process_sample_t){now_us(), gpu->processes[i].pid, gpu->processes[i].sm, 0, 0, 0, 0};
    return gpu->process_count;
}

EXPORT ret_t nvmlDeviceGetProcessUtilization(handle_t *handle, used_t *out, unsigned *count,
                                             uint64_t last_seen) {
    ENTER_DEVICE(handle);
    const gpu_t *gpu = gpu_of(handle);
    if (gpu->mig_mode == 1) return NOT_SUPPORTED;
    process_sample_t held[MAX_PROCESS_SAMPLES];
    unsigned all = present_samples(gpu, held), newer = 0;
    for (unsigned i = 0; i < all; i++) newer += held[i].ts_us > last_seen;
    if (newer == 0) {
        *count = 0;
        return gpu->empty_is_success ? SUCCESS : NOT_FOUND;
    }
    unsigned room = out ? *count : 0;
    *count = all;
    if (room < all) return INSUFFICIENT_SIZE;
    /* Like the real one, it may hand out stale entries too: the caller has to sort them out. */
    for (unsigned i = 0; i < all; i++)
        out[i] = (used_t){held[i].pid, held[i].ts_us, held[i].sm, held[i].memory, held[i].encoder,
                          held[i].decoder};
    return SUCCESS;
}

#ifndef OLD_DRIVER
typedef struct {
    uint64_t ts_us;
    unsigned pid, sm, memory, encoder, decoder, jpeg, ofa;
} used_v1_t;

typedef struct {
    unsigned version, count;
    uint64_t last_seen;
    used_v1_t *out;
} uses_v1_t;

EXPORT ret_t nvmlDeviceGetProcessesUtilizationInfo(handle_t *handle, uses_v1_t *asked) {
    ENTER_DEVICE(handle);
    const gpu_t *gpu = gpu_of(handle);
    if (asked->version != (sizeof *asked | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    if (gpu->mig_mode == 1) return NOT_SUPPORTED;
    process_sample_t held[MAX_PROCESS_SAMPLES];
    unsigned all = present_samples(gpu, held), newer = 0;
    for (unsigned i = 0; i < all; i++) newer += held[i].ts_us > asked->last_seen;
    if (newer == 0) return NOT_FOUND;
    unsigned room = asked->out ? asked->count : 0;
    asked->count = all;
    if (room < all) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < all; i++)
        asked->out[i] = (used_v1_t){held[i].ts_us, held[i].pid, held[i].sm, held[i].memory, held[i].encoder,
                                    held[i].decoder, 0, 0};
    return SUCCESS;
}
#endif

EXPORT ret_t nvmlDeviceGetMigMode(handle_t *handle, unsigned *current, unsigned *pending) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 2) return NOT_SUPPORTED;
    *current = *pending = gpu_of(handle)->mig_mode;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetMaxMigDeviceCount(handle_t *handle, unsigned *out) {
    ENTER_DEVICE(handle);
    *out = gpu_of(handle)->mig_mode == 2 ? 0 : gpu_of(handle)->mig_max;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetMigDeviceHandleByIndex(handle_t *handle, unsigned index, handle_t **out) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 2) return NOT_SUPPORTED;
    if (index >= MAX_INSTANCES || gpu_of(handle)->mig_mode != 1) return NOT_FOUND;
    if (!gpu_of(handle)->instances[index].present) return NOT_FOUND;
    *out = handle_of(handle->slot, (int32_t)index);
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceIsMigDeviceHandle(handle_t *handle, unsigned *out) {
    ENTER(handle);
    *out = handle->instance >= 0;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle_t *handle, handle_t **out) {
    ENTER(handle);
    if (handle->instance < 0) return INVALID_ARGUMENT;
    *out = handle_of(handle->slot, -1);
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetGpuInstanceId(handle_t *handle, unsigned *out) {
    ENTER(handle);
    if (handle->instance < 0) return INVALID_ARGUMENT;
    *out = instance_of(handle)->gpu_instance;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetComputeInstanceId(handle_t *handle, unsigned *out) {
    ENTER(handle);
    if (handle->instance < 0) return INVALID_ARGUMENT;
    *out = instance_of(handle)->compute_instance;
    return SUCCESS;
}

typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    uint64_t memory_mb;
} attributes_t;

EXPORT ret_t nvmlDeviceGetAttributes_v2(handle_t *handle, attributes_t *out) {
    ENTER(handle);
    if (handle->instance < 0) return NOT_SUPPORTED;
    const instance_t *part = instance_of(handle);
    *out = (attributes_t){16 * part->compute_slices, 1, 0, 0, 0, 0, part->gpu_slices, part->compute_slices,
                          part->memory_total >> 20};
    return SUCCESS;
}

typedef struct {
    uint64_t cursor;
    uint64_t wanted[MAX_GPUS];
} event_set_t;

typedef struct {
    handle_t *device;
    uint64_t type, data;
    unsigned gpu_instance, compute_instance;
} event_data_t;

EXPORT ret_t nvmlEventSetCreate(event_set_t **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    if (!*out) return MEMORY;
    (*out)->cursor = state->event_count;
    return SUCCESS;
}

EXPORT ret_t nvmlEventSetFree(event_set_t *set) {
    ENTER(NULL);
    free(set);
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceRegisterEvents(handle_t *handle, uint64_t types, event_set_t *set) {
    ENTER_DEVICE(handle);
    if (!gpu_of(handle)->events_supported) return NOT_SUPPORTED;
    set->wanted[handle->slot] |= types;
    return SUCCESS;
}

static ret_t next_event(event_set_t *set, event_data_t *out) {
    if (state->event_count - set->cursor > MAX_EVENTS) set->cursor = state->event_count - MAX_EVENTS;
    while (set->cursor < state->event_count) {
        const event_t *event = &state->events[set->cursor++ % MAX_EVENTS];
        if (!(set->wanted[event->gpu] & event->type)) continue;
        *out = (event_data_t){handle_of(event->gpu, -1), event->type, event->data, event->gpu_instance,
                              event->compute_instance};
        return SUCCESS;
    }
    return TIMEOUT;
}

EXPORT ret_t nvmlEventSetWait_v2(event_set_t *set, event_data_t *out, unsigned timeout_ms) {
    ENTER(NULL);
    ret_t code = next_event(set, out);
    if (code == SUCCESS) return code;
    for (int i = 0; i < MAX_GPUS; i++)
        if (set->wanted[i] && state->gpus[i].lost) return GPU_IS_LOST;
    struct timespec span = {timeout_ms / 1000, (long)(timeout_ms % 1000) * 1000000};
    if (timeout_ms) nanosleep(&span, NULL);
    return next_event(set, out);
}
