// A disk that fails, for one process: preloaded (LD_PRELOAD), it takes the place of the calls that write and flush.
//
// DISK_FAULTS names a file with one fault a line, read anew at every call, so that a test changes it while the process runs:
//     CALL PART ERRNO PERCENT
// CALL is write, sync or tear; PART is a part of the file's path, or * for every file below DISK_BELOW; PERCENT says how often.
// `tear` writes half of the bytes and kills the process, as a machine that loses power in a write does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned chance(void) {
    static _Atomic uint64_t state = 88172645463325252ull;
    uint64_t x = state;
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    state = x;
    return (unsigned)(x >> 33) % 100;
}

// The errno that the call shall fail with; 0 for none.
static int fault(const char *call, int fd) {
    const char *rules = getenv("DISK_FAULTS"), *below = getenv("DISK_BELOW");
    char link[64], path[PATH_MAX];
    if (!rules || !below) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, below, strlen(below)) != 0) return 0;
    FILE *file = fopen(rules, "re");
    if (!file) return 0;
    char name[16], part[256];
    int code, percent, answer = 0;
    while (!answer && fscanf(file, "%15s %255s %d %d", name, part, &code, &percent) == 4)
        if (strcmp(name, call) == 0 && (strcmp(part, "*") == 0 || strstr(path, part)) && chance() < (unsigned)percent)
            answer = code;
    fclose(file);
    return answer;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(call) do { int code = fault(call, fd); if (code) { errno = code; return -1; } } while (0)

static void tear(int fd, const void *bytes, size_t count, off_t offset) {
    if (!fault("tear", fd)) return;
    REAL(pwrite)(fd, bytes, count / 2, offset);
    kill(getpid(), SIGKILL);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t offset) {
    FAIL("write");
    tear(fd, bytes, count, offset);
    return REAL(pwrite)(fd, bytes, count, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) { return pwrite(fd, bytes, count, offset); }

int ftruncate(int fd, off_t length) { FAIL("write"); return REAL(ftruncate)(fd, length); }
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int fallocate(int fd, int mode, off_t offset, off_t length) {
    FAIL("write");
    return REAL(fallocate)(fd, mode, offset, length);
}
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return fallocate(fd, mode, offset, length); }

int fsync(int fd) { FAIL("sync"); return REAL(fsync)(fd); }
int fdatasync(int fd) { FAIL("sync"); return REAL(fdatasync)(fd); }
