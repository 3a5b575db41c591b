/* A stand-in for libcuda.so.1: the calls of a process checkpoint, on states kept in files of a folder.
 *
 * $STANDIN_CUDA names the folder, or it is the one of this library. A file named after a pid holds its state
 * as a digit (CUprocessState); a file refuse.CALL.PID makes that call fail with the number in it; calls.log gets
 * a line for each call.
 *
 * What NVIDIA's README says a checkpoint cannot do is done badly here as there: a process with a file uvm.PID
 * or ipc.PID fails its checkpoint and is FAILED for good. While there is a file full, a restore finds no memory,
 * and none of that process succeeds ever after (cuda-checkpoint issue 44). While there is a file wait, a restore
 * has not begun, and there is a file waiting.
 *
 * While there is a file owners, it answers as driver 580.159 did: whoever is not of the account of the process,
 * nor root with all of root's powers, is refused by error 304, also with CAP_SYS_PTRACE. asked.log gets a line for
 * each cuInit: uid, gid, effective capabilities, and whether a file of GPU locks was open. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    unsigned int timeoutMs, reserved0;
    unsigned long long reserved1[7];
} LockArgs;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3 };
enum { OPERATING_SYSTEM = 304, ILLEGAL_STATE = 401 };
enum { NOT_FOUND = 500, NOT_SUPPORTED = 801 };

static const char *folder(void) {
    static char own[4096];
    Dl_info info;
    const char *named = getenv("STANDIN_CUDA");
    if (named) return named;
    if (!dladdr((void *)folder, &info)) return ".";
    snprintf(own, sizeof own, "%s", info.dli_fname);
    char *slash = strrchr(own, '/');
    if (slash) *slash = 0;
    return own;
}

static FILE *open_in(const char *name, const char *mode) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder(), name);
    return fopen(path, mode);
}

static int read_number(const char *name, int *number) {
    FILE *file = open_in(name, "r");
    if (!file) return 0;
    int found = fscanf(file, "%d", number) == 1;
    fclose(file);
    return found;
}

static unsigned long long powers(void) {
    unsigned long long found = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "CapEff: %llx", &found);
    if (file) fclose(file);
    return found;
}

/* Before cuInit every function of the driver says NOT_INITIALIZED (CUDA driver API, "Initialization"). */
static int is_ready;

/* Whether it may ask about this process; CAP_DAC_OVERRIDE is bit 1. */
static int may(int pid) {
    char path[64];
    struct stat seen;
    int ignored;
    if (!read_number("owners", &ignored)) return 1;
    snprintf(path, sizeof path, "/proc/%d", pid);
    return stat(path, &seen) == 0 && (seen.st_uid == geteuid() || (geteuid() == 0 && powers() & 2));
}

static int move(const char *call, int pid, int before, int after, unsigned timeout) {
    char name[64];
    int number = 0;
    if (!is_ready) return NOT_INITIALIZED;
    if (!may(pid)) return OPERATING_SYSTEM;
    FILE *log = open_in("calls.log", "a");
    fprintf(log, "%s %d %u\n", call, pid, timeout);
    fclose(log);
    snprintf(name, sizeof name, "refuse.%s.%d", call, pid);
    if (read_number(name, &number)) return number;
    snprintf(name, sizeof name, "%d", pid);
    if (!read_number(name, &number)) return NOT_FOUND;
    if (number != before) return ILLEGAL_STATE;
    char new_name[80], from[4200], to[4200];
    snprintf(new_name, sizeof new_name, "%s.new", name);
    FILE *file = open_in(new_name, "w");
    fprintf(file, "%d\n", after);
    fclose(file);
    snprintf(from, sizeof from, "%s/%s", folder(), new_name);
    snprintf(to, sizeof to, "%s/%s", folder(), name);
    return rename(from, to) == 0 ? SUCCESS : INVALID_VALUE;
}

static int has(const char *what, int pid) {
    char name[64];
    int ignored;
    snprintf(name, sizeof name, pid ? "%s.%d" : "%s", what, pid);
    return read_number(name, &ignored);
}

static void write_number(const char *name, int number) {
    FILE *file = open_in(name, "w");
    fprintf(file, "%d\n", number);
    fclose(file);
}

static int holds_locks(void) {
    char path[64], target[4096];
    for (int number = 0; number < 256; number++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size < 0) continue;
        target[size] = 0;
        if (strstr(target, "gpu-lock")) return 1;
    }
    return 0;
}

int cuInit(unsigned flags) {
    int ignored;
    if (read_number("owners", &ignored)) {
        FILE *log = open_in("asked.log", "a");
        if (!log) return INVALID_VALUE;
        fprintf(log, "%d %d %llx %d\n", (int)geteuid(), (int)getegid(), powers(), holds_locks());
        fclose(log);
    }
    is_ready = flags == 0;
    return is_ready ? SUCCESS : INVALID_VALUE;
}

int cuCheckpointProcessGetState(int pid, int *state) {
    char name[64];
    if (!is_ready) return NOT_INITIALIZED;
    if (!may(pid)) return OPERATING_SYSTEM;
    snprintf(name, sizeof name, "%d", pid);
    return read_number(name, state) ? SUCCESS : NOT_FOUND;
}

int cuCheckpointProcessLock(int pid, LockArgs *args) {
    for (int i = 0; i < 7; i++)
        if (args->reserved1[i]) return INVALID_VALUE;
    return args->reserved0 ? INVALID_VALUE : move("lock", pid, 0, 1, args->timeoutMs);
}

int cuCheckpointProcessCheckpoint(int pid, void *args) {
    if (args) return INVALID_VALUE;
    if (!has("uvm", pid) && !has("ipc", pid)) return move("checkpoint", pid, 1, 2, 0);
    move("checkpoint", pid, 1, 3, 0);
    return NOT_SUPPORTED;
}

int cuCheckpointProcessRestore(int pid, void *args) {
    char lost[64];
    snprintf(lost, sizeof lost, "lost.%d", pid);
    if (args) return INVALID_VALUE;
    while (has("wait", 0)) {
        write_number("waiting", 1);
        usleep(20000);
    }
    if (!has("full", 0) && !has("lost", pid)) return move("restore", pid, 2, 1, 0);
    move("restore", pid, 2, 2, 0);
    if (has("lost", pid)) return OPERATING_SYSTEM;
    write_number(lost, 1);
    return OUT_OF_MEMORY;
}

int cuCheckpointProcessUnlock(int pid, void *args) { return args ? INVALID_VALUE : move("unlock", pid, 1, 0, 0); }

int cuGetErrorName(int code, const char **name) {
    static const struct { int code; const char *name; } names[] = {
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM"}, {909, "CUDA_ERROR_TIMEOUT"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].code == code) { *name = names[i].name; return SUCCESS; }
    return INVALID_VALUE;
}
