/* What the stand-in driver's files share: handles, return codes, and the gate every call goes through.
 *
 * Names, numbers and argument orders are NVML's public interface (docs.nvidia.com/deploy/nvml-api) as
 * nvidia-ml-py 13 calls it; everything else is our own. */
#ifndef FALLOW_INTERNAL_H
#define FALLOW_INTERNAL_H
#include <stddef.h>

#include "state.h"

#define EXPORT __attribute__((visibility("default")))

typedef int ret_t;
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    MEMORY = 20,
    ARGUMENT_VERSION_MISMATCH = 25,
};

typedef struct {
    uint32_t slot;
    int32_t instance; /* -1: the whole device */
} handle_t;

extern state_t *state;

/* Counts the call, applies faults, and answers for lost GPUs; `handle` is NULL for calls without one. */
ret_t gate(const char *function, int *id, const handle_t *handle);
ret_t fault_of(const char *function, int gpu);
uint64_t now_us(void);
handle_t *handle_of(uint32_t slot, int32_t instance);

/* The GPU as it is now, toys counted in; good until this thread asks again. */
const gpu_t *gpu_of(const handle_t *handle);

static inline instance_t *instance_of(const handle_t *handle) {
    return &state->gpus[handle->slot].instances[handle->instance];
}

#define ENTER(handle)                                    \
    do {                                                 \
        static int id_ = -1;                             \
        ret_t code_ = gate(__func__, &id_, (handle));    \
        if (code_ != SUCCESS) return code_;              \
    } while (0)

/* For what only a whole device can say. */
#define ENTER_DEVICE(handle)                             \
    ENTER(handle);                                       \
    if ((handle)->instance >= 0) return NOT_SUPPORTED
#endif
