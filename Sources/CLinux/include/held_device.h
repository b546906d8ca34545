// A FUSE connection that outlives the process which serves it: memory and descriptors that a holder and its workers share.
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/// What a worker leaves to the next one, in memory that both and the holder have mapped. The worker writes, with atomic
/// stores in `uniques`; the others read when it is gone.
struct linux_held {
    /// Of the worker that runs; 0 is the first.
    uint32_t generation;
    /// The worker that runs has begun to answer requests.
    uint32_t is_serving;
    /// The kernel's INIT request and what it was answered.
    uint32_t init_size, init_reply_size;
    uint64_t init_request[64];
    uint64_t init_reply[32];
    /// `major:minor` of the mount.
    char device[64];
    char mountpoint[4097];
    /// Requests that were read and not answered: a table with open addressing, 0 is free.
    uint64_t uniques[16384];
    /// Files that programs have open, by the number of the handle: a table like the one before. An inode of 0 is one whose
    /// opening or closing was not through.
    struct { uint64_t handle, inode; } handles[32768];
    /// An open file found no room above.
    uint32_t has_lost_handles;
    /// Inodes that the kernel reads from files of the cache itself (FUSE passthrough), with the number of the file and what
    /// the kernel calls it: a table like the others.
    struct { uint64_t inode, file; int32_t backing; } backings[4096];
    /// How far programs have read directories, by the number of the handle: a table like the others. `length` is that of `name`,
    /// and 0 while the rest is being written.
    struct { uint64_t handle, offset; uint32_t length; char name[260]; } listings[1024];
    /// Identifies bucket, mountpoint and options, for the process that takes the mount back from a keeper.
    char options[72];
    /// What the holder of a new mount has heard of the keeper: 0 for nothing yet, 1 for yes, 2 for no.
    uint32_t is_kept;
};

/// memfd_create(2) of the right size, closed on exec. Returns it or -errno.
int linux_held_create(void);

/// mmap(2) of what linux_held_create made; NULL if that fails.
struct linux_held *linux_held_map(int fd);

/// Notes an open file, and forgets it. What finds no room, or no table in the memory of an older holder, is not noted.
void linux_held_opened(struct linux_held *held, uint64_t handle, uint64_t inode);
void linux_held_closed(struct linux_held *held, uint64_t handle);

/// The noted file in a slot from 0 on. Returns 1, 0 for an empty slot, or -1 behind the last one.
int linux_held_open_file(const struct linux_held *held, int slot, uint64_t *handle, uint64_t *inode);

/// Notes how far a directory was read: the last offset that was handed out, and the name there. A longer name, one that finds no
/// room, and any in the memory of an older holder is not noted.
void linux_held_listed(struct linux_held *held, uint64_t handle, uint64_t offset, const void *name, size_t length);
void linux_held_unlisted(struct linux_held *held, uint64_t handle);

/// What was noted of a handle: the name's length, and the rest; 0 for nothing. `name` has room for 260 bytes.
size_t linux_held_listing(const struct linux_held *held, uint64_t handle, uint64_t *offset, void *name);

/// Notes that the kernel reads an inode from a file of the cache, and that it does no longer. Returns 1, or 0 when there is
/// no room.
int linux_held_backed(struct linux_held *held, uint64_t inode, uint64_t file, int32_t backing);
void linux_held_unbacked(struct linux_held *held, uint64_t inode);

/// The note in a slot from 0 on, as linux_held_open_file does it.
int linux_held_backing(const struct linux_held *held, int slot, uint64_t *inode, uint64_t *file, int32_t *backing);

/// Asks the kernel, in the answer to INIT, to let files back others (FUSE_PASSTHROUGH, Linux 6.9), where it offers that.
void linux_held_want_backing(void);

/// Whether that was agreed, and the memory has a place for what must be known of it and knows all that is open.
int linux_held_allows_backing(const struct linux_held *held);

/// Asks the kernel, in the answer to INIT, to check permissions by mode, owner and group even where the mount lacks
/// default_permissions (FUSE_POSIX_ACL, Linux 4.9).
void linux_held_want_checks(void);

/// Whether that was agreed.
int linux_held_checks_permissions(const struct linux_held *held);

/// The answer to OPEN with its newest field (struct fuse_open_out).
struct linux_backed_open {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};

/// FUSE_DEV_IOC_BACKING_OPEN: enters a file in the connection. Returns what the kernel calls it, from 1 on, or -errno.
int linux_backing_open(int file);

/// FUSE_DEV_IOC_BACKING_CLOSE. Returns 0 or -errno.
int linux_backing_close(int32_t backing);

/// The parts that Swift does not import as fields.
void *linux_held_init_request(struct linux_held *held);
const char *linux_held_device(const struct linux_held *held);
const char *linux_held_mountpoint(const struct linux_held *held);
void linux_held_name(struct linux_held *held, const char *device, const char *mountpoint);

/// Notes a text of at most 71 bytes in `options`. Returns 1, or 0 where there is no room for it.
int linux_held_set_options(struct linux_held *held, const char *text);

/// Notes what the keeper answered, and returns it; 2 in the memory of an older holder.
void linux_held_set_kept(struct linux_held *held, uint32_t answer);
uint32_t linux_held_kept(const struct linux_held *held);

/// What was noted; empty for nothing, and in the memory of an older holder.
const char *linux_held_options(const struct linux_held *held);

/// Tells this process the memory and the descriptor of its one connection.
void linux_held_use(struct linux_held *held, int connection);

/// read(2) of a request from the device, which is noted in the memory of linux_held_use until it is answered. Returns its
/// size or -errno: -ENOENT when its caller gave up meanwhile, -ENODEV when the mount is gone.
ssize_t linux_held_receive(int device, void *buffer, size_t length);

/// The number of the request that this thread read last, once; 0 for what is not noted. The caller of this sees to
/// linux_held_answered.
uint64_t linux_held_take(void);

/// libfuse is through with the request that this thread read last: where linux_held_take was not called, it has been answered.
void linux_held_processed(void);

/// Whether this process still answers requests, or leaves them to the next one.
int linux_held_may_answer(uint64_t unique);

/// A request that linux_held_take returned has its answer.
void linux_held_answered(uint64_t unique);

/// Reads the kernel's INIT into the memory; waits for it. Returns 0 or -errno: -EALREADY when another server has answered it.
int linux_held_receive_init(int device);

/// Puts one end of a socket in the place of the device, so that what libfuse answers next can be read and changed. Only one
/// thread may use the descriptor then. Returns 0 or -errno.
int linux_held_divert(int descriptor);

/// Puts the device back; saves libfuse's answer to INIT, with what libfuse does not know of, and gives it to the kernel.
/// Returns 0 or -errno, also that of an answer which refuses the kernel's INIT.
int linux_held_answer_init(int descriptor);

/// Puts the device back. Returns 1 if libfuse's answer to INIT was the saved one, 0 if another, or -errno.
int linux_held_compare_init(int descriptor);

/// From here on requests get no answer from this process: the next one has them from the kernel.
void linux_held_end(void);

/// Has the kernel send again what was read and not answered (FUSE_NOTIFY_RESEND, Linux 6.9). Returns 0 or -errno.
int linux_held_resend(int fd);

/// Answers with EIO what was read and not answered. Returns how many requests that were.
int linux_held_refuse(struct linux_held *held, int fd);

/// Whether the request that this thread read last had been read before by another worker.
int linux_held_is_repeated(void);

/// Whether the request that this thread read last takes set-user-ID and set-group-ID bits away: its caller has no
/// CAP_FSETID, or it is a chown(2). FUSE_HANDLE_KILLPRIV_V2 in linux/fuse.h
int linux_held_kills_privileges(void);

/// Sends `tag` with the descriptors that are not -1 through a socket. Returns 0 or -errno.
int linux_send_descriptors(int socket, char tag, int first, int second);

/// Receives one such message without waiting. Returns its tag, 0 when there is none, or -errno.
int linux_receive_descriptors(int socket, int descriptors[2]);

/// socketpair(2) of stream sockets, closed on exec. Returns 0 or -errno.
int linux_socket_pair(int ends[2]);

/// signalfd(2) for `count` signals, which are blocked in this thread first. Returns it or -errno.
int linux_signal_descriptor(const int *signals, int count);

/// Waits until a descriptor can be read, at most so long. Returns a bit for each that can.
int linux_wait_readable(int first, int second, int milliseconds);

/// The next signal of a signalfd; 0 when there is none.
int linux_next_signal(int fd);
