/* The stand-in driver's sample rings, batched field values and GPM. */
#include <math.h>
#include <stdlib.h>

#include "internal.h"

typedef union {
    double d;
    unsigned ui;
    uint64_t ull;
} value_t;

typedef struct {
    uint64_t ts_us;
    value_t value;
} sample_t;

static unsigned present_value(const gpu_t *gpu, int ring) {
    const unsigned values[RINGS] = {gpu->utilization, gpu->memory_utilization, gpu->encoder, gpu->decoder};
    return values[ring];
}

/* The ring as the driver would hold it now, oldest first; its length. */
static unsigned fill(const gpu_t *gpu, int ring, ring_sample_t *out) {
    if (!gpu->auto_ring_us) {
        for (unsigned i = 0; i < gpu->ring_count[ring]; i++) out[i] = gpu->rings[ring][i];
        return gpu->ring_count[ring];
    }
    uint64_t newest = now_us() / gpu->auto_ring_us * gpu->auto_ring_us;
    for (unsigned i = 0; i < RING_SIZE; i++) {
        out[i].ts_us = newest - (uint64_t)(RING_SIZE - 1 - i) * gpu->auto_ring_us;
        out[i].value = present_value(gpu, ring);
    }
    return RING_SIZE;
}

EXPORT ret_t nvmlDeviceGetSamples(handle_t *handle, unsigned type, uint64_t last_seen, unsigned *value_type,
                                  unsigned *count, sample_t *out) {
    ENTER_DEVICE(handle);
    const gpu_t *gpu = gpu_of(handle);
    if (type < 1 || type > RINGS || gpu->mig_mode == 1) return NOT_SUPPORTED;
    *value_type = 1;
    if (!out) {
        *count = RING_SIZE;
        return SUCCESS;
    }
    ring_sample_t ring[RING_SIZE];
    unsigned held = fill(gpu, (int)type - 1, ring), written = 0;
    for (unsigned i = 0; i < held; i++) {
        if (ring[i].ts_us <= last_seen) continue;
        if (written == *count) return INSUFFICIENT_SIZE;
        out[written].ts_us = ring[i].ts_us;
        out[written].value.ull = 0xaaaaaaaa00000000u; /* what lies beside the unsigned int is not zero */
        out[written++].value.ui = ring[i].value;
    }
    *count = written;
    return written ? SUCCESS : NOT_FOUND;
}

typedef struct {
    unsigned id, scope;
    int64_t ts_us, latency_us;
    unsigned type;
    ret_t code;
    value_t value;
} field_t;

static ret_t field_value(const handle_t *handle, field_t *field) {
    const gpu_t *gpu = gpu_of(handle);
    field->type = 3;
    switch (field->id) {
        case 3: field->value.ull = gpu->ecc_corrected; return SUCCESS;
        case 4: field->value.ull = gpu->ecc_uncorrected; return SUCCESS;
        case 83: field->value.ull = gpu->energy_mj; return SUCCESS;
#ifndef OLD_DRIVER
        case 185:
        case 186:
            field->type = 1;
            field->value.ui = gpu->power_mw;
            return SUCCESS;
#endif
        default: return NOT_SUPPORTED;
    }
}

EXPORT ret_t nvmlDeviceGetFieldValues(handle_t *handle, int count, field_t *fields) {
    ENTER_DEVICE(handle);
    for (int i = 0; i < count; i++) {
        char name[16] = "field:";
        unsigned id = fields[i].id, at = 6;
        for (unsigned unit = id >= 100 ? 100 : id >= 10 ? 10 : 1; unit; unit /= 10)
            name[at++] = (char)('0' + id / unit % 10);
        fields[i].ts_us = (int64_t)now_us();
        fields[i].code = fault_of(name, (int)handle->slot);
        if (fields[i].code == SUCCESS) fields[i].code = field_value(handle, &fields[i]);
    }
    return SUCCESS;
}

#ifndef OLD_DRIVER
typedef struct {
    double values[GPM_METRICS];
} gpm_sample_t;

typedef struct {
    unsigned id;
    ret_t code;
    double value;
    const char *text[3];
} gpm_metric_t;

typedef struct {
    unsigned version, count;
    gpm_sample_t *first, *second;
    gpm_metric_t metrics[];
} gpm_metrics_t;

EXPORT ret_t nvmlGpmQueryDeviceSupport(handle_t *handle, unsigned *out) {
    ENTER_DEVICE(handle);
    if (out[0] != 1) return ARGUMENT_VERSION_MISMATCH;
    out[1] = gpu_of(handle)->gpm_supported;
    return SUCCESS;
}

EXPORT ret_t nvmlGpmSampleAlloc(gpm_sample_t **out) {
    ENTER(NULL);
    *out = calloc(1, sizeof **out);
    return *out ? SUCCESS : MEMORY;
}

EXPORT ret_t nvmlGpmSampleFree(gpm_sample_t *sample) {
    ENTER(NULL);
    free(sample);
    return SUCCESS;
}

EXPORT ret_t nvmlGpmSampleGet(handle_t *handle, gpm_sample_t *sample) {
    ENTER_DEVICE(handle);
    if (!gpu_of(handle)->gpm_supported) return NOT_SUPPORTED;
    for (int i = 0; i < GPM_METRICS; i++) sample->values[i] = gpu_of(handle)->gpm[i];
    return SUCCESS;
}

EXPORT ret_t nvmlGpmMigSampleGet(handle_t *handle, unsigned gpu_instance, gpm_sample_t *sample) {
    ENTER_DEVICE(handle);
    const gpu_t *gpu = gpu_of(handle);
    if (!gpu->gpm_supported) return NOT_SUPPORTED;
    for (int j = 0; j < MAX_INSTANCES; j++) {
        if (!gpu->instances[j].present || gpu->instances[j].gpu_instance != gpu_instance) continue;
        for (int i = 0; i < GPM_METRICS; i++) sample->values[i] = gpu->instances[j].gpm[i];
        return SUCCESS;
    }
    return NOT_FOUND;
}

/* A metric is the mean of what the two samples saw. */
EXPORT ret_t nvmlGpmMetricsGet(gpm_metrics_t *request) {
    ENTER(NULL);
    if (request->version != 1) return ARGUMENT_VERSION_MISMATCH;
    for (unsigned i = 0; i < request->count; i++) {
        gpm_metric_t *metric = &request->metrics[i];
        unsigned id = metric->id;
        int known = id > 0 && id < GPM_METRICS && request->second->values[id] >= 0;
        metric->code = known ? SUCCESS : NOT_SUPPORTED;
        metric->value = known ? (request->first->values[id] + request->second->values[id]) / 2 : NAN;
    }
    return SUCCESS;
}
#endif
