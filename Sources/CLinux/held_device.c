#define _GNU_SOURCE
#include "held_internal.h"
#include "include/CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

// linux/fuse.h, protocol 7.40.
struct backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
struct write_in {
    uint64_t handle, offset;
    uint32_t size, write_flags;
};
struct open_in {
    uint32_t flags, open_flags;
};
struct create_in {
    uint32_t flags, mode, umask, open_flags;
};
struct setattr_in {
    uint32_t valid;
};
enum {
    forget = 2, setattr = 4, open_file = 14, write_file = 16, create = 35, interrupt = 36, batch_forget = 42,
    notify_resend = 7
};
// FATTR_KILL_SUIDGID, FUSE_OPEN_KILL_SUIDGID, FUSE_WRITE_KILL_SUIDGID.
enum { setattr_kills = 1 << 11, open_kills = 1 << 0, write_kills = 1 << 2 };
static const uint64_t repeated_bit = 1ull << 63;

enum { slots = sizeof(((struct linux_held *)0)->uniques) / sizeof(uint64_t) };

struct linux_held *linux_held_used;
static int used_connection = -1;
static int is_ended;
// Of the request that this thread read last. `current` is its number until its answer has an owner.
static _Thread_local int is_repeated, kills_privileges;
static _Thread_local uint64_t current;

int linux_held_create(void) {
    int fd = memfd_create("pailfs", MFD_CLOEXEC);
    if (fd < 0) return -errno;
    if (ftruncate(fd, sizeof(struct linux_held)) == 0) return fd;
    int error = errno;
    close(fd);
    return -error;
}

int linux_held_handle_slots, linux_held_backing_slots, linux_held_listing_slots;
static int has_options;

struct linux_held *linux_held_map(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0) return NULL;
    if (status.st_size >= (off_t)offsetof(struct linux_held, has_lost_handles)) {
        linux_held_handle_slots = sizeof(((struct linux_held *)0)->handles) / sizeof(((struct linux_held *)0)->handles[0]);
    }
    has_options = status.st_size >= (off_t)sizeof(struct linux_held);
    if (status.st_size >= (off_t)offsetof(struct linux_held, options)) {
        linux_held_listing_slots = sizeof(((struct linux_held *)0)->listings) / sizeof(((struct linux_held *)0)->listings[0]);
    }
    if (status.st_size >= (off_t)offsetof(struct linux_held, listings)) {
        linux_held_backing_slots = sizeof(((struct linux_held *)0)->backings) / sizeof(((struct linux_held *)0)->backings[0]);
    }
    void *memory = mmap(NULL, sizeof(struct linux_held), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int linux_backing_open(int file) {
    struct backing_map map = {.fd = file};
    int backing = ioctl(used_connection, _IOW(229, 1, struct backing_map), &map);
    return backing < 0 ? -errno : backing;
}

int linux_backing_close(int32_t backing) {
    uint32_t number = (uint32_t)backing;
    return ioctl(used_connection, _IOW(229, 2, uint32_t), &number) < 0 ? -errno : 0;
}

void *linux_held_init_request(struct linux_held *held) { return held->init_request; }

const char *linux_held_device(const struct linux_held *held) { return held->device; }

const char *linux_held_mountpoint(const struct linux_held *held) { return held->mountpoint; }

void linux_held_name(struct linux_held *held, const char *device, const char *mountpoint) {
    strncpy(held->device, device, sizeof held->device - 1);
    strncpy(held->mountpoint, mountpoint, sizeof held->mountpoint - 1);
}

int linux_held_set_options(struct linux_held *held, const char *text) {
    if (!has_options || strlen(text) >= sizeof held->options) return 0;
    strcpy(held->options, text);
    return 1;
}

void linux_held_set_kept(struct linux_held *held, uint32_t answer) {
    if (has_options) __atomic_store_n(&held->is_kept, answer, __ATOMIC_RELEASE);
}

uint32_t linux_held_kept(const struct linux_held *held) {
    return has_options ? __atomic_load_n(&held->is_kept, __ATOMIC_ACQUIRE) : 2;
}

const char *linux_held_options(const struct linux_held *held) { return has_options ? held->options : ""; }

void linux_held_use(struct linux_held *held, int connection) {
    linux_held_used = held;
    used_connection = connection;
}

static void note(uint64_t unique) {
    // Uniques count up in steps of two. A table that is full near a number forgets it, and can only be resent then.
    for (uint64_t probe = 0; probe < linux_held_probes; probe++) {
        uint64_t empty = 0, *slot = &linux_held_used->uniques[((unique >> 1) + probe) % slots];
        if (__atomic_compare_exchange_n(slot, &empty, unique, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    }
}

static void forget_unique(uint64_t unique) {
    for (uint64_t probe = 0; probe < linux_held_probes; probe++) {
        uint64_t known = unique, *slot = &linux_held_used->uniques[((unique >> 1) + probe) % slots];
        if (__atomic_compare_exchange_n(slot, &known, 0, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    }
}

static int asks_to_kill(uint32_t opcode, const void *argument, size_t size) {
    switch (opcode) {
    case setattr:
        return size >= sizeof(struct setattr_in) && (((const struct setattr_in *)argument)->valid & setattr_kills) != 0;
    case open_file:
        return size >= sizeof(struct open_in) && (((const struct open_in *)argument)->open_flags & open_kills) != 0;
    case create:
        return size >= sizeof(struct create_in) && (((const struct create_in *)argument)->open_flags & open_kills) != 0;
    case write_file:
        return size >= sizeof(struct write_in) && (((const struct write_in *)argument)->write_flags & write_kills) != 0;
    default: return 0;
    }
}

// A process that is killed while the kernel copies a request to it does not get the pages it has not touched yet, and what
// could not be copied fails with EIO, which no other process can make good. Each thread keeps its buffer.
void linux_held_touch(void *buffer, size_t length) {
    static _Thread_local const void *touched;
    if (buffer == touched) return;
    touched = buffer;
    volatile char *bytes = buffer;
    for (size_t at = 0; at < length; at += 4096) bytes[at] = bytes[at];
    bytes[length - 1] = bytes[length - 1];
}

ssize_t linux_held_receive(int device, void *buffer, size_t length) {
    linux_held_touch(buffer, length);
    ssize_t size = read(device, buffer, length);
    if (size < 0) return -errno;
    const struct in_header *header = buffer;
    if (size < (ssize_t)sizeof *header) return -EIO;
    if (linux_held_used == NULL) return size;
    is_repeated = (header->unique & repeated_bit) != 0;
    kills_privileges = asks_to_kill(header->opcode, header + 1, (size_t)size - sizeof *header);
    switch (header->opcode) {
    case forget:
    case batch_forget:
    case interrupt:
    case linux_held_init: break;
    default:
        note(header->unique);
        current = header->unique;
    }
    return size;
}

void linux_held_processed(void) {
    // libfuse has answered it by itself.
    if (current != 0) forget_unique(linux_held_take());
}

uint64_t linux_held_take(void) {
    uint64_t unique = current;
    current = 0;
    return unique;
}

int linux_held_may_answer(uint64_t unique) {
    return unique == 0 || !__atomic_load_n(&is_ended, __ATOMIC_SEQ_CST);
}

void linux_held_answered(uint64_t unique) {
    if (unique != 0) forget_unique(unique);
}

void linux_held_end(void) { __atomic_store_n(&is_ended, 1, __ATOMIC_SEQ_CST); }

int linux_held_resend(int fd) {
    // What is sent again enters the table again when it is read; nobody reads yet.
    uint64_t before[slots];
    memcpy(before, linux_held_used->uniques, sizeof before);
    memset(linux_held_used->uniques, 0, sizeof linux_held_used->uniques);
    struct out_header notice = {.length = sizeof notice, .error = notify_resend};
    if (write(fd, &notice, sizeof notice) == sizeof notice) return 0;
    int error = errno;
    memcpy(linux_held_used->uniques, before, sizeof before);
    return -error;
}

int linux_held_refuse(struct linux_held *held, int fd) {
    int count = 0;
    for (int slot = 0; slot < slots; slot++) {
        uint64_t unique = __atomic_exchange_n(&held->uniques[slot], 0, __ATOMIC_RELAXED);
        if (unique == 0) continue;
        struct out_header answer = {.length = sizeof answer, .error = -EIO, .unique = unique};
        // ENOENT: it was answered, or its program is gone.
        if (write(fd, &answer, sizeof answer) == sizeof answer) count++;
    }
    return count;
}

int linux_held_is_repeated(void) { return is_repeated; }

int linux_held_kills_privileges(void) { return kills_privileges; }

int linux_send_descriptors(int socket, char tag, int first, int second) {
    int descriptors[2], count = 0;
    if (first >= 0) descriptors[count++] = first;
    if (second >= 0) descriptors[count++] = second;
    ssize_t sent = linux_socket_send_descriptors(socket, &tag, 1, descriptors, count);
    return sent < 0 ? (int)sent : 0;
}

int linux_receive_descriptors(int socket, int descriptors[2]) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    char tag = 0;
    struct iovec text = {.iov_base = &tag, .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    descriptors[0] = descriptors[1] = -1;
    ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (size < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (size == 0) return -EPIPE;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS) {
        size_t length = header->cmsg_len - CMSG_LEN(0);
        memcpy(descriptors, CMSG_DATA(header), length < 2 * sizeof(int) ? length : 2 * sizeof(int));
    }
    return tag;
}

int linux_socket_pair(int ends[2]) {
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ? 0 : -errno;
}

int linux_signal_descriptor(const int *signals, int count) {
    sigset_t set;
    sigemptyset(&set);
    for (int index = 0; index < count; index++) sigaddset(&set, signals[index]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

int linux_wait_readable(int first, int second, int milliseconds) {
    struct pollfd waits[2] = {{.fd = first, .events = POLLIN}, {.fd = second, .events = POLLIN}};
    if (poll(waits, 2, milliseconds) <= 0) return 0;
    return (waits[0].revents != 0) | (waits[1].revents != 0) << 1;
}

int linux_next_signal(int fd) {
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}
