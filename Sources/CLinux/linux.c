#define _GNU_SOURCE
#include "include/CLinux.h"

#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <syslog.h>

int linux_punch_hole(int fd, int64_t offset, int64_t length) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) == 0 ? 0 : -errno;
}

int linux_allocate(int fd, int64_t offset, int64_t length) {
    return fallocate(fd, 0, offset, length) == 0 ? 0 : -errno;
}

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

int64_t linux_write_uncached(int fd, const void *bytes, size_t length, int64_t offset) {
    struct iovec vector = {.iov_base = (void *)bytes, .iov_len = length};
    ssize_t written = pwritev2(fd, &vector, 1, offset, RWF_DONTCACHE);
    return written < 0 ? -errno : written;
}

static char *map(size_t length) {
    char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

void *linux_map(size_t length, size_t alignment) {
    // Since Linux 6.7 large mappings mostly come aligned to huge pages.
    char *start = map(length);
    if (!start || (uintptr_t)start % alignment == 0) return start;
    munmap(start, length);
    start = map(length + alignment);
    if (!start) return NULL;
    char *base = start + (alignment - (uintptr_t)start % alignment) % alignment;
    if (base > start) munmap(start, (size_t)(base - start));
    munmap(base + length, (size_t)(start + alignment - base));
    return base;
}

void linux_use_huge_pages(void *memory, size_t length) { madvise(memory, length, MADV_HUGEPAGE); }

int linux_random(void *buffer, size_t length) {
    unsigned char *next = buffer;
    while (length > 0) {
        ssize_t got = getrandom(next, length, 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            return -errno;
        }
        next += got;
        length -= (size_t)got;
    }
    return 0;
}

void linux_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

static int space(int status, const struct statvfs *figures, int64_t *free_bytes, int64_t *total_bytes) {
    if (status != 0) return -errno;
    *free_bytes = (int64_t)figures->f_bavail * (int64_t)figures->f_frsize;
    *total_bytes = (int64_t)figures->f_blocks * (int64_t)figures->f_frsize;
    return 0;
}

int linux_disk_space(int fd, int64_t *free_bytes, int64_t *total_bytes) {
    struct statvfs figures;
    return space(fstatvfs(fd, &figures), &figures, free_bytes, total_bytes);
}

int linux_path_space(const char *path, int64_t *free_bytes, int64_t *total_bytes) {
    struct statvfs figures;
    return space(statvfs(path, &figures), &figures, free_bytes, total_bytes);
}

int64_t linux_block_size(const char *path) {
    struct statvfs figures;
    return statvfs(path, &figures) == 0 ? (int64_t)figures.f_frsize : 0;
}

int64_t linux_file_system(const char *path) {
    struct statfs figures;
    return statfs(path, &figures) == 0 ? (int64_t)(uint32_t)figures.f_type : 0;
}

int64_t linux_page_size(void) { return sysconf(_SC_PAGESIZE); }

int linux_lock_exclusive(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno; }

const int linux_o_direct = O_DIRECT, linux_seek_data = SEEK_DATA, linux_seek_hole = SEEK_HOLE;

int linux_try_as_owner(const char *path) {
    int fd = open(path, O_RDONLY | O_NOATIME | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -errno;
    close(fd);
    return 0;
}

int linux_is_fuse_device(const struct stat *status) {
    return S_ISCHR(status->st_mode) && major(status->st_rdev) == 10 && minor(status->st_rdev) == 229;
}

int linux_unmount(const char *path, int lazy) { return umount2(path, lazy ? MNT_DETACH : 0) == 0 ? 0 : -errno; }

void linux_forbid_core_dumps(void) { prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

void linux_ignore_signal(int number) { signal(number, SIG_IGN); }

static void nothing(int number) { (void)number; }

void linux_catch_signal(int number) {
    struct sigaction action = {.sa_handler = nothing};
    sigaction(number, &action, NULL);
}

int linux_wait_until(sem_t *semaphore, const struct timespec *deadline) {
    while (sem_clockwait(semaphore, CLOCK_MONOTONIC, deadline) != 0) {
        if (errno != EINTR) return -errno;
    }
    return 0;
}

int linux_spawn(pid_t *process, char *const *arguments) {
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int status = posix_spawnp(process, arguments[0], NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return -status;
}

// A process of our own program begins with no signal blocked or ignored.
static void forget_signals(posix_spawnattr_t *attributes, short flags) {
    sigset_t none, all;
    posix_spawnattr_init(attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes, flags | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

int linux_spawn_for_output(
    pid_t *process, char *const *arguments, char *const *variables, int output, int errors) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    forget_signals(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, 1);
    posix_spawn_file_actions_adddup2(&actions, errors, 2);
    int result = posix_spawnp(process, arguments[0], &actions, &attributes, arguments, variables);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -result;
}

int linux_spawn_self(pid_t *process, char *const *arguments, int status, int other, int device) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    forget_signals(&attributes, POSIX_SPAWN_SETSID);
    // The actions run in this order: `other` may be number 3 itself, so it goes before `status` takes its place.
    posix_spawn_file_actions_addclose(&actions, other);
    posix_spawn_file_actions_adddup2(&actions, status, 3);
    if (status != 3) posix_spawn_file_actions_addclose(&actions, status);
    if (device >= 0) posix_spawn_file_actions_adddup2(&actions, device, 4);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    int result = posix_spawn(process, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -result;
}

int linux_spawn_worker(
    pid_t *process, const char *program, char *const *arguments, const int *descriptors, int count) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    forget_signals(&attributes, 0);
    for (int index = 0; index < count; index++) {
        if (descriptors[index] >= 0) posix_spawn_file_actions_adddup2(&actions, descriptors[index], 3 + index);
    }
    int result = posix_spawn(process, program, &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -result;
}

void linux_syslog(int priority, const char *text) {
    static int is_open;
    if (!__atomic_exchange_n(&is_open, 1, __ATOMIC_RELAXED)) openlog("pailfs", LOG_PID, LOG_DAEMON);
    syslog(priority, "%s", text);
}
