// INIT: what a mount and its kernel agree on, as the first worker answers it and the ones after it answer it again.
#define _GNU_SOURCE
#include "held_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The front of an INIT request, and of its answer (linux/fuse.h, protocol 7.40).
struct init_in {
    uint32_t major, minor, max_readahead, flags, flags2;
};
struct init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2, max_stack_depth;
};
// In `flags`, and in `flags2`.
enum { init_ext = 1 << 30, handle_killpriv_v2 = 1 << 28, posix_acl = 1 << 20, passthrough = 1 << 5 };

static int wants_backing, wants_checks;
// While libfuse's answer is caught: the device, and where the answer arrives.
static int diverted_device = -1, diverted_answers = -1;

void linux_held_want_backing(void) { wants_backing = 1; }

void linux_held_want_checks(void) { wants_checks = 1; }

static struct init_out *init_answer(void *answer, size_t size) {
    struct out_header *header = answer;
    if (size < sizeof *header + sizeof(struct init_out) || header->error != 0) return NULL;
    return (struct init_out *)(header + 1);
}

int linux_held_allows_backing(const struct linux_held *held) {
    const struct init_out *agreed = init_answer((void *)held->init_reply, held->init_reply_size);
    return linux_held_backing_slots > 0 && agreed != NULL && (agreed->flags2 & passthrough) != 0
        && __atomic_load_n(&held->has_lost_handles, __ATOMIC_ACQUIRE) == 0;
}

int linux_held_checks_permissions(const struct linux_held *held) {
    const struct init_out *agreed = init_answer((void *)held->init_reply, held->init_reply_size);
    return agreed != NULL && (agreed->flags & posix_acl) != 0;
}

// Adds what libfuse 3.14 does not know of. A worker that takes the connection over adds what the first one had agreed on,
// which is `before`; NULL is the first one.
static void add_flags(void *answer, size_t size, const struct init_out *before) {
    const struct init_in *offered = (const void *)((const struct in_header *)(const void *)linux_held_used->init_request + 1);
    struct init_out *answered = init_answer(answer, size);
    if (answered == NULL) return;
    // Set-user-ID bits go where the kernel says so (`linux_held_kills_privileges`). Without it the kernel asks for
    // security.capability before each write.
    // With FUSE_POSIX_ACL the kernel checks permissions by mode, owner and group, as with default_permissions.
    uint32_t flags = handle_killpriv_v2 | (wants_checks ? posix_acl : 0), flags2 = wants_backing ? passthrough : 0;
    if (before != NULL) {
        flags = (handle_killpriv_v2 | posix_acl) & before->flags;
        flags2 = passthrough & before->flags2;
    }
    answered->flags |= flags & offered->flags;
    if (linux_held_used->init_size < sizeof(struct in_header) + sizeof *offered || (offered->flags & init_ext) == 0) return;
    if ((flags2 & offered->flags2) == 0) return;
    answered->flags |= init_ext;
    answered->flags2 |= passthrough;
    answered->max_stack_depth = 1;
}

int linux_held_receive_init(int device) {
    // As large as the kernel demands of a reader (FUSE_MIN_READ_BUFFER in linux/fuse.h).
    static _Alignas(uint64_t) char request[8192];
    ssize_t size;
    do {
        linux_held_touch(request, sizeof request);
        size = read(device, request, sizeof request);
    } while (size < 0 && (errno == EINTR || errno == EAGAIN));
    // EINVAL: the buffer is too small for the largest write that another server has agreed on; nothing was read.
    if (size < 0) return errno == EINVAL ? -EALREADY : -errno;
    const struct in_header *header = (const void *)request;
    if (size < (ssize_t)sizeof *header) return -EPROTO;
    if (header->opcode != linux_held_init) {
        // A request for another server, which does not get it any more: its program must not wait for ever. FORGET has no answer.
        struct out_header answer = {.length = sizeof answer, .error = -EIO, .unique = header->unique};
        ssize_t ignored = write(device, &answer, sizeof answer);
        (void)ignored;
        return -EALREADY;
    }
    if (size > (ssize_t)sizeof linux_held_used->init_request) return -EPROTO;
    memcpy(linux_held_used->init_request, request, size);
    linux_held_used->init_size = size;
    return 0;
}

int linux_held_divert(int descriptor) {
    int ends[2];
    diverted_device = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (diverted_device < 0) return -errno;
    int error = 0;
    // A message is one answer, as a write(2) to the device is.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
        error = errno;
    } else {
        if (dup3(ends[0], descriptor, O_CLOEXEC) < 0) {
            error = errno;
            close(ends[1]);
        }
        close(ends[0]);
    }
    if (error != 0) {
        close(diverted_device);
        return -error;
    }
    diverted_answers = ends[1];
    return 0;
}

// The answer that libfuse has given since linux_held_divert, with what libfuse does not know of. Returns its size or -errno.
static ssize_t end_diversion(int descriptor, void *answer, size_t size) {
    ssize_t received = recv(diverted_answers, answer, size, MSG_DONTWAIT);
    int error = received < 0 ? errno : 0;
    if (dup3(diverted_device, descriptor, O_CLOEXEC) < 0) error = errno;
    close(diverted_device);
    close(diverted_answers);
    return error != 0 ? -error : received;
}

int linux_held_answer_init(int descriptor) {
    ssize_t size = end_diversion(descriptor, linux_held_used->init_reply, sizeof linux_held_used->init_reply);
    if (size < 0) return (int)size;
    struct out_header *header = (void *)linux_held_used->init_reply;
    if (size < (ssize_t)sizeof *header) return -EPROTO;
    add_flags(linux_held_used->init_reply, size, NULL);
    linux_held_used->init_reply_size = size;
    if (write(descriptor, linux_held_used->init_reply, size) < 0) return -errno;
    return header->error;
}

int linux_held_compare_init(int descriptor) {
    _Alignas(uint64_t) char answer[sizeof linux_held_used->init_reply];
    ssize_t size = end_diversion(descriptor, answer, sizeof answer);
    if (size < 0) return (int)size;
    add_flags(answer, size, init_answer(linux_held_used->init_reply, linux_held_used->init_reply_size));
    return size == linux_held_used->init_reply_size && memcmp(answer, linux_held_used->init_reply, size) == 0;
}
