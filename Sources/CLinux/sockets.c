// Local sockets between the commands and the processes that serve mounts.
#define _GNU_SOURCE
#include "include/CLinux.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

// A socket's address holds 107 bytes; a directory may have a longer path, its descriptor never has.
static int address(const char *directory, const char *name, struct sockaddr_un *target) {
    memset(target, 0, sizeof *target);
    target->sun_family = AF_UNIX;
    int folder = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -errno;
    int length = snprintf(target->sun_path, sizeof target->sun_path, "%s/%s", directory, name);
    if (length < 0 || (size_t)length >= sizeof target->sun_path)
        length = snprintf(target->sun_path, sizeof target->sun_path, "/proc/self/fd/%d/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof target->sun_path) {
        close(folder);
        return -ENAMETOOLONG;
    }
    return folder;
}

static int local_socket(void) {
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return made < 0 ? -errno : made;
}

int linux_local_listen(const char *directory, const char *name, int backlog) {
    struct sockaddr_un target;
    int folder = address(directory, name, &target);
    if (folder < 0) return folder;
    int made = local_socket();
    // The mode of the descriptor becomes that of the name, which nobody then sees with another one.
    if (made >= 0
        && (fchmod(made, 0600) != 0 || bind(made, (struct sockaddr *)&target, sizeof target) != 0
            || fchmodat(folder, name, 0600, 0) != 0 || listen(made, backlog) != 0)) {
        int reason = errno;
        close(made);
        made = -reason;
    }
    close(folder);
    return made;
}

int linux_local_connect(const char *directory, const char *name) {
    struct sockaddr_un target;
    int folder = address(directory, name, &target);
    if (folder < 0) return folder;
    int made = local_socket();
    if (made >= 0) {
        // Where the queue of those who wait is full, connect waits too.
        linux_socket_timeouts(made, 5000, 5000);
        int status;
        do status = connect(made, (struct sockaddr *)&target, sizeof target);
        while (status != 0 && errno == EINTR);
        if (status != 0) {
            int reason = errno;
            close(made);
            made = -reason;
        }
    }
    close(folder);
    return made;
}

int linux_port_listen(const char *address, uint16_t port, int backlog) {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } target;
    memset(&target, 0, sizeof target);
    socklen_t length;
    if (inet_pton(AF_INET, address, &target.four.sin_addr) == 1) {
        target.four.sin_family = AF_INET;
        target.four.sin_port = htons(port);
        length = sizeof target.four;
    } else if (inet_pton(AF_INET6, address, &target.six.sin6_addr) == 1) {
        target.six.sin6_family = AF_INET6;
        target.six.sin6_port = htons(port);
        length = sizeof target.six;
    } else {
        return -EINVAL;
    }
    int made = socket(target.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0) return -errno;
    int on = 1;
    if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(made, &target.any, length) != 0
        || listen(made, backlog) != 0) {
        int reason = errno;
        close(made);
        return -reason;
    }
    return made;
}

int linux_local_accept(int socket) {
    int accepted;
    do accepted = accept4(socket, NULL, NULL, SOCK_CLOEXEC);
    while (accepted < 0 && errno == EINTR);
    return accepted < 0 ? -errno : accepted;
}

int linux_notify(const char *path, const char *message, int descriptor) {
    struct sockaddr_un target = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof target.sun_path || (path[0] != '/' && path[0] != '@')) return -EINVAL;
    memcpy(target.sun_path, path, length);
    if (path[0] == '@') target.sun_path[0] = 0;
    int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made < 0) return -errno;
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + length;
    linux_socket_timeouts(made, 5000, 5000);
    int status = connect(made, (struct sockaddr *)&target, size) == 0 ? 0 : -errno;
    if (status == 0) {
        ssize_t sent = linux_socket_send_descriptors(made, message, strlen(message), &descriptor, descriptor >= 0);
        if (sent < 0) status = (int)sent;
    }
    close(made);
    return status;
}

int linux_local_peer(int socket, uint32_t *user, int32_t *process) {
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) return -errno;
    *user = credentials.uid;
    *process = credentials.pid;
    return 0;
}

int linux_socket_timeouts(int socket, int receive_milliseconds, int send_milliseconds) {
    struct timeval receive = {receive_milliseconds / 1000, receive_milliseconds % 1000 * 1000};
    struct timeval send = {send_milliseconds / 1000, send_milliseconds % 1000 * 1000};
    if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive) != 0) return -errno;
    return setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof send) == 0 ? 0 : -errno;
}

ssize_t linux_socket_send(int socket, const void *bytes, size_t length) {
    ssize_t count;
    do count = send(socket, bytes, length, MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

ssize_t linux_socket_send_descriptors(
    int socket, const void *bytes, size_t length, const int *descriptors, int count) {
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control;
    if (count > 2) return -EINVAL;
    struct iovec text = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    if (count > 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), descriptors, count * sizeof(int));
    }
    ssize_t sent;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t linux_socket_receive(int socket, void *bytes, size_t length) {
    ssize_t count;
    do count = recv(socket, bytes, length, 0);
    while (count < 0 && errno == EINTR);
    return count < 0 ? -errno : count;
}

ssize_t linux_socket_receive_descriptors(
    int socket, void *bytes, size_t length, int *descriptors, int most, int *count) {
    union {
        struct cmsghdr header;
        // The most that one message may have (SCM_MAX_FD in the kernel).
        char space[CMSG_SPACE(253 * sizeof(int))];
    } control;
    struct iovec text = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t size;
    do size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    if (size < 0) return -errno;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t index = 0; index < number; index++) {
            int received;
            memcpy(&received, CMSG_DATA(header) + index * sizeof(int), sizeof received);
            if (*count < most) descriptors[*count] = received;
            else close(received);
            *count += 1;
        }
    }
    return size;
}

int linux_poll(int fd, int milliseconds) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    int status;
    do status = poll(&wait, 1, milliseconds);
    while (status < 0 && errno == EINTR);
    return status < 0 ? -errno : wait.revents;
}

int linux_socket_is_hung_up(int socket) {
    struct pollfd wait = {.fd = socket, .events = 0};
    return poll(&wait, 1, 0) > 0 && (wait.revents & (POLLHUP | POLLERR)) != 0;
}

void linux_socket_shut_down(int socket) { shutdown(socket, SHUT_RDWR); }
