/* What living toy processes do to the GPUs: they write into a board beside the state file, and every answer of
 * the driver counts them in for as long as they live. A toy that was killed holds nothing, a stopped one
 * computes nothing; nobody has to tell the driver.
 *
 * examples/toys/board.py mirrors these structs and explains them. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

enum { BOARD_MAGIC = 0x59544c46, MAX_TOYS = 256, FRESH_US = 20000, NOBODY = 0xFFFFFFFF };

typedef struct {
    char uuid[96];
    uint64_t memory_total;
    uint64_t memory_reserved;
} board_gpu_t;

typedef struct {
    uint32_t pid; /* 0: a free row */
    uint32_t gpu;
    uint64_t started_ticks; /* field 22 of /proc/PID/stat */
    uint64_t memory;
    uint32_t sm;
    uint32_t controller;
} toy_t;

typedef struct {
    uint32_t magic;
    uint32_t size;
    uint32_t gpu_count;
    uint32_t spare;
    board_gpu_t gpus[MAX_GPUS];
    toy_t toys[MAX_TOYS];
} board_t;

typedef enum { GONE, STOPPED, RUNNING } life_t;

static const board_t *board;
static int looked_for_board;
static life_t lives[MAX_TOYS];
static uint64_t looked_us;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local gpu_t snapshot;

static void map_board(void) {
    looked_for_board = 1;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s.toys", getenv("FALLOW_DRIVER_STATE"));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    struct stat found;
    if (fstat(fd, &found) != 0 || found.st_size != (off_t)sizeof(board_t)) {
        fprintf(stderr, "stand-in driver: %s is not a board of %zu bytes\n", path, sizeof(board_t));
        abort();
    }
    void *at = mmap(NULL, sizeof(board_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED) return;
    board = at;
    if (board->magic != BOARD_MAGIC || board->size != sizeof(board_t)) {
        fprintf(stderr, "stand-in driver: %s was written for another layout\n", path);
        abort();
    }
}

static life_t life_of(const toy_t *toy) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", toy->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return GONE;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0) return GONE;
    text[got] = 0;
    char *at = strrchr(text, ')'), *save = NULL; /* the name may hold anything, blanks and brackets too */
    if (!at) return GONE;
    char state_letter = 'X';
    unsigned long long started = 0;
    int field = 3;
    for (char *word = strtok_r(at + 1, " ", &save); word; word = strtok_r(NULL, " ", &save), field++) {
        if (field == 3) state_letter = word[0];
        if (field == 22) started = strtoull(word, NULL, 10);
    }
    if (started != toy->started_ticks || strchr("ZXx", state_letter)) return GONE;
    return strchr("Tt", state_letter) ? STOPPED : RUNNING;
}

static void look_around(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t now_us_ = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    if (looked_us && now_us_ - looked_us < FRESH_US) return;
    looked_us = now_us_;
    for (int i = 0; i < MAX_TOYS; i++) lives[i] = board->toys[i].pid ? life_of(&board->toys[i]) : GONE;
}

static uint32_t at_most(uint32_t value, uint32_t most) { return value < most ? value : most; }

static void count_in(gpu_t *gpu, const toy_t *toy, life_t life) {
    gpu->memory_used += toy->memory;
    if (life == RUNNING) {
        gpu->utilization = at_most(gpu->utilization + toy->sm, 100);
        gpu->memory_utilization = at_most(gpu->memory_utilization + toy->controller, 100);
    }
    if (gpu->process_count == MAX_PROCESSES) return;
    gpu->processes[gpu->process_count++] =
        (process_t){toy->memory, toy->pid, 1, NOBODY, NOBODY, life == RUNNING ? toy->sm : 0, 0};
}

/* Power and GPM follow what the toys do, so that no counter contradicts another. */
static void follow(gpu_t *gpu, uint32_t before) {
    uint32_t more = gpu->utilization - before;
    gpu->power_mw += (uint32_t)((uint64_t)(gpu->power_limit_mw - gpu->power_mw) * more / 100);
    const int busy[] = {1, 2}, traffic[] = {10};
    for (unsigned i = 0; i < 2; i++)
        if (gpu->gpm[busy[i]] >= 0) gpu->gpm[busy[i]] += more;
    if (gpu->gpm[3] >= 0) gpu->gpm[3] += more / 2.0;
    if (gpu->gpm[traffic[0]] >= 0) gpu->gpm[traffic[0]] += gpu->memory_utilization;
}

const gpu_t *gpu_of(const handle_t *handle) {
    const gpu_t *stated = &state->gpus[handle->slot];
    pthread_mutex_lock(&guard);
    if (!looked_for_board) map_board();
    if (!board) {
        pthread_mutex_unlock(&guard);
        return stated;
    }
    look_around();
    snapshot = *stated;
    for (int i = 0; i < MAX_TOYS; i++)
        if (lives[i] != GONE && board->toys[i].gpu == handle->slot) count_in(&snapshot, &board->toys[i], lives[i]);
    pthread_mutex_unlock(&guard);
    follow(&snapshot, stated->utilization);
    return &snapshot;
}
