/*
 * The least that a file system in user space can do: one file of the name "file", known by heart. What its answers take is
 * libfuse's and the kernel's time, which pailfs's stat is measured against.
 */
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stddef.h>
#include <string.h>

static const double keep = 60;

static int attributes(fuse_ino_t ino, struct stat *status) {
    memset(status, 0, sizeof *status);
    status->st_ino = ino;
    status->st_mode = ino == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644;
    status->st_nlink = ino == FUSE_ROOT_ID ? 2 : 1;
    return ino == FUSE_ROOT_ID || ino == 2;
}

static void getattr(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info) {
    (void)info;
    struct stat status;
    if (attributes(ino, &status)) fuse_reply_attr(request, &status, keep);
    else fuse_reply_err(request, ENOENT);
}

static void lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    struct fuse_entry_param entry = {.ino = 2, .attr_timeout = keep, .entry_timeout = keep};
    attributes(entry.ino, &entry.attr);
    if (parent == FUSE_ROOT_ID && strcmp(name, "file") == 0) fuse_reply_entry(request, &entry);
    else fuse_reply_err(request, ENOENT);
}

int main(int count, char **arguments) {
    static const struct fuse_lowlevel_ops operations = {.lookup = lookup, .getattr = getattr};
    struct fuse_args parsed = FUSE_ARGS_INIT(count - 1, arguments);
    struct fuse_session *session = fuse_session_new(&parsed, &operations, sizeof operations, NULL);
    if (session == NULL || fuse_session_mount(session, arguments[count - 1]) != 0) return 1;
    struct fuse_loop_config *loop = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(loop, 4);
    int status = fuse_session_loop_mt(session, loop);
    fuse_loop_cfg_destroy(loop);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return status != 0;
}
