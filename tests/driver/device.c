/* What the stand-in driver says of a whole device: identity, memory, clocks, power, samples, fields. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

static ret_t put(char *out, unsigned size, const char *text) {
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

EXPORT ret_t nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ENTER(NULL);
    return put(out, size, state->driver_version);
}

EXPORT ret_t nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    ENTER(NULL);
    return put(out, size, state->nvml_version);
}

EXPORT ret_t nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER(NULL);
    *out = (int)state->cuda_version;
    return SUCCESS;
}

EXPORT ret_t nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER(NULL);
    *out = (int)state->cuda_version;
    return SUCCESS;
}

EXPORT ret_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    ENTER(NULL);
    char text[32];
    snprintf(text, sizeof text, "process-%u", pid);
    return put(out, size, text);
}

EXPORT ret_t nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER(NULL);
    *out = state->gpu_count;
    return SUCCESS;
}

static ret_t give(uint32_t slot, handle_t **out) {
    gpu_t *gpu = &state->gpus[slot];
    if (gpu->lost && gpu->lost_handle_code) return (ret_t)gpu->lost_handle_code;
    ret_t code = fault_of("handle", (int)slot);
    if (code == SUCCESS) *out = handle_of(slot, -1);
    return code;
}

EXPORT ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, handle_t **out) {
    ENTER(NULL);
    if (index >= state->gpu_count) return INVALID_ARGUMENT;
    return give(state->order[index], out);
}

EXPORT ret_t nvmlDeviceGetHandleByUUID(const char *uuid, handle_t **out) {
    ENTER(NULL);
    for (uint32_t i = 0; i < state->gpu_count; i++) {
        uint32_t slot = state->order[i];
        if (strcmp(state->gpus[slot].uuid, uuid) == 0) return give(slot, out);
        for (int j = 0; j < MAX_INSTANCES; j++) {
            instance_t *instance = &state->gpus[slot].instances[j];
            if (instance->present && strcmp(instance->uuid, uuid) == 0) {
                *out = handle_of(slot, j);
                return SUCCESS;
            }
        }
    }
    return NOT_FOUND;
}

EXPORT ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, handle_t **out) {
    ENTER(NULL);
    for (uint32_t i = 0; i < state->gpu_count; i++)
        if (strcmp(state->gpus[state->order[i]].bus_id, bus_id) == 0) return give(state->order[i], out);
    return NOT_FOUND;
}

EXPORT ret_t nvmlDeviceGetUUID(handle_t *handle, char *out, unsigned size) {
    ENTER(handle);
    return put(out, size, handle->instance < 0 ? gpu_of(handle)->uuid : instance_of(handle)->uuid);
}

EXPORT ret_t nvmlDeviceGetName(handle_t *handle, char *out, unsigned size) {
    ENTER(handle);
    if (handle->instance < 0) return put(out, size, gpu_of(handle)->name);
    char text[160];
    snprintf(text, sizeof text, "%s MIG %s", gpu_of(handle)->name, instance_of(handle)->profile);
    return put(out, size, text);
}

EXPORT ret_t nvmlDeviceGetIndex(handle_t *handle, unsigned *out) {
    ENTER(handle);
    for (uint32_t i = 0; i < state->gpu_count; i++)
        if (state->order[i] == handle->slot) *out = i;
    return SUCCESS;
}

typedef struct {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci_t;

EXPORT ret_t nvmlDeviceGetPciInfo_v3(handle_t *handle, pci_t *out) {
    ENTER_DEVICE(handle);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", gpu_of(handle)->bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%.15s", gpu_of(handle)->bus_id + 4);
    out->bus = handle->slot + 1;
    return SUCCESS;
}

#define PLAIN(NAME, TYPE, VALUE)                              \
    EXPORT ret_t NAME(handle_t *handle, TYPE *out) {          \
        ENTER_DEVICE(handle);                                 \
        const gpu_t *gpu = gpu_of(handle);                    \
        (void)gpu;                                            \
        *out = (TYPE)(VALUE);                                 \
        return SUCCESS;                                       \
    }

PLAIN(nvmlDeviceGetPowerUsage, unsigned, gpu->power_mw)
PLAIN(nvmlDeviceGetPowerManagementLimit, unsigned, gpu->power_limit_mw)
PLAIN(nvmlDeviceGetEnforcedPowerLimit, unsigned, gpu->power_limit_mw)
PLAIN(nvmlDeviceGetTotalEnergyConsumption, uint64_t, gpu->energy_mj)
PLAIN(nvmlDeviceGetPersistenceMode, unsigned, gpu->persistence)
PLAIN(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, gpu->throttle_reasons)
PLAIN(nvmlDeviceGetMinorNumber, unsigned, handle->slot)
PLAIN(nvmlDeviceGetPerformanceState, unsigned, gpu->utilization ? 0 : 8)
PLAIN(nvmlDeviceGetComputeMode, unsigned, 0)
PLAIN(nvmlDeviceGetDisplayMode, unsigned, 0)
PLAIN(nvmlDeviceGetDisplayActive, unsigned, 0)
PLAIN(nvmlDeviceGetSupportedEventTypes, uint64_t, gpu->events_supported ? 0x1f : 0)
#ifndef OLD_DRIVER
PLAIN(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, gpu->throttle_reasons)
#endif

EXPORT ret_t nvmlDeviceGetFanSpeed(handle_t *handle, unsigned *out) {
    (void)out;
    ENTER_DEVICE(handle);
    return NOT_SUPPORTED; /* as on SXM boards */
}

/* Windows only. */
EXPORT ret_t nvmlDeviceGetDriverModel_v2(handle_t *handle, unsigned *current, unsigned *pending) {
    (void)current, (void)pending;
    ENTER_DEVICE(handle);
    return NOT_SUPPORTED;
}

EXPORT ret_t nvmlDeviceGetDriverModel(handle_t *handle, unsigned *current, unsigned *pending) {
    (void)current, (void)pending;
    ENTER_DEVICE(handle);
    return NOT_SUPPORTED;
}

EXPORT ret_t nvmlDeviceGetTemperature(handle_t *handle, unsigned sensor, unsigned *out) {
    ENTER_DEVICE(handle);
    if (sensor != 0) return INVALID_ARGUMENT;
    *out = gpu_of(handle)->temperature;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetClockInfo(handle_t *handle, unsigned type, unsigned *out) {
    ENTER_DEVICE(handle);
    *out = type == 2 ? gpu_of(handle)->memory_clock : gpu_of(handle)->sm_clock;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetMaxClockInfo(handle_t *handle, unsigned type, unsigned *out) {
    ENTER_DEVICE(handle);
    *out = type == 2 ? 2619 : 1980;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetCudaComputeCapability(handle_t *handle, int *major, int *minor) {
    ENTER_DEVICE(handle);
    *major = 9;
    *minor = 0;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetEccMode(handle_t *handle, unsigned *current, unsigned *pending) {
    ENTER_DEVICE(handle);
    *current = *pending = 1;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetTotalEccErrors(handle_t *handle, unsigned error, unsigned counter, uint64_t *out) {
    (void)counter;
    ENTER_DEVICE(handle);
    *out = error == 0 ? gpu_of(handle)->ecc_corrected : gpu_of(handle)->ecc_uncorrected;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetPcieThroughput(handle_t *handle, unsigned counter, unsigned *out) {
    (void)counter;
    ENTER_DEVICE(handle);
    *out = 0;
    return SUCCESS;
}

typedef struct {
    uint64_t total, free, used;
} memory_t;

EXPORT ret_t nvmlDeviceGetBAR1MemoryInfo(handle_t *handle, memory_t *out) {
    ENTER_DEVICE(handle);
    *out = (memory_t){1ULL << 37, (1ULL << 37) - (1ULL << 20), 1ULL << 20};
    return SUCCESS;
}

/* From R510 on the first version counts what the driver reserves as used. */
EXPORT ret_t nvmlDeviceGetMemoryInfo(handle_t *handle, memory_t *out) {
    ENTER(handle);
    const gpu_t *gpu = gpu_of(handle);
    uint64_t total = gpu->memory_total, used = gpu->memory_used + gpu->memory_reserved;
    if (handle->instance >= 0) {
        const instance_t *part = instance_of(handle);
        total = part->memory_total;
        used = part->memory_used + part->memory_reserved;
    }
    *out = (memory_t){total, total - used, used};
    return SUCCESS;
}

#ifndef OLD_DRIVER
typedef struct {
    unsigned version;
    uint64_t total, reserved, free, used;
} memory_v2_t;

EXPORT ret_t nvmlDeviceGetMemoryInfo_v2(handle_t *handle, memory_v2_t *out) {
    ENTER(handle);
    if (out->version != (sizeof *out | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    const gpu_t *gpu = gpu_of(handle);
    out->total = gpu->memory_total;
    out->reserved = gpu->memory_reserved;
    out->used = gpu->memory_used;
    if (handle->instance >= 0) {
        const instance_t *part = instance_of(handle);
        out->total = part->memory_total;
        out->reserved = part->memory_reserved;
        out->used = part->memory_used;
    }
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}
#endif

typedef struct {
    unsigned gpu, memory;
} utilization_t;

EXPORT ret_t nvmlDeviceGetUtilizationRates(handle_t *handle, utilization_t *out) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 1) return NOT_SUPPORTED;
    *out = (utilization_t){gpu_of(handle)->utilization, gpu_of(handle)->memory_utilization};
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetEncoderUtilization(handle_t *handle, unsigned *out, unsigned *period) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 1) return NOT_SUPPORTED;
    *out = gpu_of(handle)->encoder;
    *period = 167000;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetDecoderUtilization(handle_t *handle, unsigned *out, unsigned *period) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 1) return NOT_SUPPORTED;
    *out = gpu_of(handle)->decoder;
    *period = 167000;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetJpgUtilization(handle_t *handle, unsigned *out, unsigned *period) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 1) return NOT_SUPPORTED;
    *out = gpu_of(handle)->jpeg;
    *period = 167000;
    return SUCCESS;
}

EXPORT ret_t nvmlDeviceGetOfaUtilization(handle_t *handle, unsigned *out, unsigned *period) {
    ENTER_DEVICE(handle);
    if (gpu_of(handle)->mig_mode == 1) return NOT_SUPPORTED;
    *out = gpu_of(handle)->ofa;
    *period = 167000;
    return SUCCESS;
}
