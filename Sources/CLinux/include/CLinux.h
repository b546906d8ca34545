// GNU and Linux calls that Swift's Glibc module does not show, because it is built without _GNU_SOURCE.
// Plain prototypes and constants only; linux.c defines _GNU_SOURCE for itself alone.
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "held_device.h"

/// fallocate(2) with FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE. Returns 0 or -errno.
int linux_punch_hole(int fd, int64_t offset, int64_t length);

/// fallocate(2) mode 0. Returns 0 or -errno.
int linux_allocate(int fd, int64_t offset, int64_t length);

/// pwritev2(2) with RWF_DONTCACHE (Linux 6.14): the page cache drops what was written once it is on the disk. Returns the
/// bytes written or -errno; EOPNOTSUPP where the kernel or the file system knows no such thing.
int64_t linux_write_uncached(int fd, const void *bytes, size_t length, int64_t offset);

/// mmap(2), anonymous, at a multiple of `alignment`, which is a multiple of the page size: its MAP_FAILED is a macro. For munmap(2);
/// NULL without memory.
void *linux_map(size_t length, size_t alignment);

/// madvise(2) with MADV_HUGEPAGE: from now on the kernel backs the memory with huge pages, where it has any.
void linux_use_huge_pages(void *memory, size_t length);

/// getrandom(2): fills the buffer whole. Returns 0 or -errno.
int linux_random(void *buffer, size_t length);

/// pthread_setname_np(3) for the calling thread; the name is cut to 15 bytes by the caller.
void linux_name_thread(const char *name);

/// Free and total bytes of the file system that holds fd (fstatvfs f_bavail, f_blocks). Returns 0 or -errno.
int linux_disk_space(int fd, int64_t *free_bytes, int64_t *total_bytes);

/// The same for the file system that holds path (statvfs). Returns 0 or -errno.
int linux_path_space(const char *path, int64_t *free_bytes, int64_t *total_bytes);

/// Which file system holds path, as statfs(2) numbers them; 0 if it does not say.
int64_t linux_file_system(const char *path);

/// The unit in which the file system that holds path takes space, as it says (statvfs f_frsize); 0 if it says nothing.
int64_t linux_block_size(const char *path);

/// sysconf(3) _SC_PAGESIZE: a page of memory, in bytes.
int64_t linux_page_size(void);

/// flock(2) LOCK_EX | LOCK_NB. Returns 0 or -errno.
int linux_lock_exclusive(int fd);

/// Whether the processor computes CRC-32C (SSE 4.2, ARMv8 CRC): 1 or 0.
int linux_has_crc32c(void);

/// Takes bytes into a CRC-32C register (inverted at start and end by the caller). Only where linux_has_crc32c answers 1.
uint32_t linux_crc32c(uint32_t crc, const void *bytes, size_t length);

/// The same for CRC-32 (ARMv8 CRC; no processor of the x86 family has an instruction for that).
int linux_has_crc32(void);
uint32_t linux_crc32(uint32_t crc, const void *bytes, size_t length);

/// Whether the processor multiplies without carries (PCLMULQDQ, PMULL): 1 or 0.
int linux_has_crc64_fold(void);

/// Takes bytes, 64 at a time and at least 64, into a CRC-64 register and answers how many. `folded` is a message of 16 bytes:
/// its CRC from a register of 0 is theirs. `powers` are x^575, x^511, x^191 and x^127 modulo the polynomial, reflected. Only where
/// linux_has_crc64_fold answers 1.
size_t linux_crc64_fold(
    const uint64_t powers[4], uint64_t crc, const void *bytes, size_t length, uint64_t folded[2]);

/// open(2) O_DIRECT, which differs between architectures; lseek(2) SEEK_DATA and SEEK_HOLE.
extern const int linux_o_direct, linux_seek_data, linux_seek_hole;

/// Opens a file or directory with O_NOATIME, which takes its owner or CAP_FOWNER, and closes it. Returns 0 or -errno. open(2)
int linux_try_as_owner(const char *path);

/// umount2(2), with MNT_DETACH if lazy is not 0. Returns 0 or -errno.
int linux_unmount(const char *path, int lazy);

/// prctl(2) PR_SET_DUMPABLE, off: the process writes no core file, and only root reads what is its in /proc.
void linux_forbid_core_dumps(void);

/// Makes this process ignore a signal, or interrupts system calls with it and nothing else (no SA_RESTART).
void linux_ignore_signal(int signal);
void linux_catch_signal(int signal);

/// sem_clockwait(3) on CLOCK_MONOTONIC, again after interrupts. Returns 0 or -ETIMEDOUT.
int linux_wait_until(sem_t *semaphore, const struct timespec *deadline);

/// posix_spawnp(3) with the caller's environment, no signal blocked and SIGPIPE as by default. Returns 0 or -errno.
int linux_spawn(pid_t *process, char *const *arguments);

/// posix_spawnp(3) with `variables` as environment: standard input from /dev/null, output and errors to the two descriptors,
/// in a process group of its own, every signal unblocked and as by default. Returns 0 or -errno.
int linux_spawn_for_output(
    pid_t *process, char *const *arguments, char *const *variables, int output, int errors);

/// posix_spawn(3) of this very program in a new session: standard input from /dev/null, the descriptor `status` as number
/// 3 and `other` closed, every signal unblocked and as by default. `device` becomes number 4 unless it is -1, and must be
/// above that. Returns 0 or -errno.
int linux_spawn_self(pid_t *process, char *const *arguments, int status, int other, int device);

/// posix_spawn(3) of `program` with `descriptors` as numbers 3 and following, -1 leaving one out; every signal unblocked
/// and as by default. All of them must be above what they become. Returns 0 or -errno.
int linux_spawn_worker(
    pid_t *process, const char *program, char *const *arguments, const int *descriptors, int count);

/// syslog(3) under the name pailfs, facility daemon. `priority` is LOG_ERR (3) to LOG_DEBUG (7).
void linux_syslog(int priority, const char *text);

/// A listening socket (AF_UNIX, SOCK_STREAM) named `name` in `directory`, mode 0600; names of any length. Returns the
/// descriptor or -errno.
int linux_local_listen(const char *directory, const char *name, int backlog);

/// Connects to such a socket. Returns the descriptor or -errno.
int linux_local_connect(const char *directory, const char *name);

/// A listening TCP socket at a numeric address, whose port it shares with dead connections only. The descriptor or -errno.
int linux_port_listen(const char *address, uint16_t port, int backlog);

/// accept4(2), close-on-exec, again after interrupts. Returns the descriptor or -errno.
int linux_local_accept(int socket);

/// One message to the service manager's socket, a path or @ and an abstract name (sd_notify(3)), with a descriptor beside it
/// unless that is -1. 0 or -errno.
int linux_notify(const char *path, const char *message, int descriptor);

/// The user and the process at the other end of a connected local socket (SO_PEERCRED), as they were at connect or listen; 0 for
/// a process of a PID namespace that is not visible here. 0 or -errno.
int linux_local_peer(int socket, uint32_t *user, int32_t *process);

/// Ends waits of more than these for one receive or send with EAGAIN (SO_RCVTIMEO, SO_SNDTIMEO). 0 or -errno.
int linux_socket_timeouts(int socket, int receive_milliseconds, int send_milliseconds);

/// send(2) of at most `length` bytes without SIGPIPE, again after interrupts. Returns the count or -errno.
ssize_t linux_socket_send(int socket, const void *bytes, size_t length);

/// sendmsg(2) of at most `length` bytes with up to two descriptors beside them (SCM_RIGHTS), without SIGPIPE. Returns the count
/// or -errno.
ssize_t linux_socket_send_descriptors(
    int socket, const void *bytes, size_t length, const int *descriptors, int count);

/// recv(2) of at most `length` bytes, again after interrupts. Returns the count, 0 at the end, or -errno.
ssize_t linux_socket_receive(int socket, void *bytes, size_t length);

/// recvmsg(2) of at most `length` bytes and of the descriptors beside them (SCM_RIGHTS), closed on exec: the first `most` are
/// stored, and others are closed. Adds to `count` how many came. Returns the count of bytes, 0 at the end, or -errno.
ssize_t linux_socket_receive_descriptors(
    int socket, void *bytes, size_t length, int *descriptors, int most, int *count);

/// Waits until a descriptor can be read, at most so long. Returns the events of poll(2), 0 for none, or -errno.
int linux_poll(int fd, int milliseconds);

/// Whether a file is the device of FUSE: character device 10, 229 (linux/Documentation/admin-guide/devices.txt).
int linux_is_fuse_device(const struct stat *status);

/// Whether the other end of a local socket is closed: 1 or 0.
int linux_socket_is_hung_up(int socket);

/// shutdown(2) both ways: whoever waits in accept, receive or send on it returns.
void linux_socket_shut_down(int socket);
