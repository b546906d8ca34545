#define _GNU_SOURCE
#include "include/CLinux.h"

#include <sys/file.h>
#include <sys/random.h>
#include <sys/statvfs.h>

int linux_punch_hole(int fd, int64_t offset, int64_t length) {
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) == 0 ? 0 : -errno;
}

int linux_allocate(int fd, int64_t offset, int64_t length) {
    return fallocate(fd, 0, offset, length) == 0 ? 0 : -errno;
}

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

int linux_lock_exclusive(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno; }
