/* The mapped state, the count of calls, and faults: what happens before any call answers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

state_t *state;
static handle_t handles[MAX_GPUS][MAX_INSTANCES + 1];
static int reported_lost[MAX_GPUS];
static pid_t owner;
static int references;

static ret_t map_state(void) {
    if (state) return SUCCESS;
    const char *path = getenv("FALLOW_DRIVER_STATE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return DRIVER_NOT_LOADED;
    struct stat found;
    if (fstat(fd, &found) != 0 || found.st_size != (off_t)sizeof(state_t)) {
        fprintf(stderr, "stand-in driver: %s is not a state file of %zu bytes\n", path, sizeof(state_t));
        abort();
    }
    void *at = mmap(NULL, sizeof(state_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return DRIVER_NOT_LOADED;
    state = at;
    if (state->magic != STATE_MAGIC || state->size != sizeof(state_t)) {
        fprintf(stderr, "stand-in driver: %s was written for another layout\n", path);
        abort();
    }
    return SUCCESS;
}

static int find_function(const char *name) {
    for (int i = 0; i < MAX_FUNCTIONS; i++) {
        if (strcmp(state->functions[i].name, name) == 0) return i;
        if (state->functions[i].name[0] == 0) {
            snprintf(state->functions[i].name, sizeof state->functions[i].name, "%s", name);
            return i;
        }
    }
    abort();
}

static void pause_us(uint32_t us) {
    struct timespec span = {us / 1000000, (long)(us % 1000000) * 1000};
    while (nanosleep(&span, &span) != 0) {
    }
}

uint64_t now_us(void) {
    if (state->clock_us) return state->clock_us;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (state->clock_speed <= 0) return us;
    return state->clock_since_us + (uint64_t)((double)(us - state->clock_since_us) * state->clock_speed);
}

handle_t *handle_of(uint32_t slot, int32_t instance) {
    handle_t *handle = &handles[slot][instance + 1];
    handle->slot = slot;
    handle->instance = instance;
    return handle;
}

ret_t fault_of(const char *function, int gpu) {
    for (int i = 0; i < MAX_FAULTS; i++) {
        fault_t *fault = &state->faults[i];
        if (fault->function[0] == 0 || fault->remaining == 0) continue;
        if (fault->gpu >= 0 && fault->gpu != gpu) continue;
        if (strcmp(fault->function, function) != 0) continue;
        if (fault->remaining > 0) fault->remaining--;
        if (fault->delay_us) pause_us(fault->delay_us);
        if (fault->code == -1) abort();
        if (fault->code == -2) *(volatile int *)0 = 0;
        return fault->code;
    }
    return SUCCESS;
}

static ret_t refuse_lost(const handle_t *handle) {
    const gpu_t *gpu = &state->gpus[handle->slot];
    if (!gpu->lost) return SUCCESS;
    if (gpu->crash_when_lost && reported_lost[handle->slot]) abort();
    reported_lost[handle->slot] = 1;
    return GPU_IS_LOST;
}

ret_t gate(const char *function, int *id, const handle_t *handle) {
    if (!state || references == 0 || owner != getpid()) return UNINITIALIZED;
    if (*id < 0) *id = find_function(function);
    function_t *counted = &state->functions[*id];
    __atomic_fetch_add(&counted->total, 1, __ATOMIC_RELAXED);
    if (handle) __atomic_fetch_add(&counted->per_gpu[handle->slot], 1, __ATOMIC_RELAXED);
    ret_t code = fault_of(function, handle ? (int)handle->slot : -1);
    if (code != SUCCESS || !handle) return code;
    if (handle->instance >= 0 && !instance_of(handle)->present) return INVALID_ARGUMENT;
    return refuse_lost(handle);
}

EXPORT ret_t nvmlInitWithFlags(unsigned flags) {
    static int id = -1;
    (void)flags;
    ret_t code = map_state();
    if (code != SUCCESS) return code;
    if (owner != getpid()) references = 0;
    owner = getpid();
    references++;
    code = gate(__func__, &id, NULL);
    if (code != SUCCESS) references--;
    return code;
}

EXPORT ret_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

EXPORT ret_t nvmlShutdown(void) {
    ENTER(NULL);
    references--;
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(ret_t code) {
    switch (code) {
        case SUCCESS: return "Success";
        case UNINITIALIZED: return "Uninitialized";
        case NOT_SUPPORTED: return "Not Supported";
        case GPU_IS_LOST: return "GPU is lost";
        default: return "Unknown Error";
    }
}
