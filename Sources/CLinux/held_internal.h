// What the files that keep linux_held share.
#pragma once

#include "include/held_device.h"

// linux/fuse.h, protocol 7.40: its in and out headers.
struct in_header {
    uint32_t length, opcode;
    uint64_t unique, node;
    uint32_t user, group, process, padding;
};
struct out_header {
    uint32_t length;
    int32_t error;
    uint64_t unique;
};

// The memory of this process's one connection, and how many slots its tables have: a holder of an older version has less
// memory, which ends before the open files or behind one of the tables.
extern struct linux_held *linux_held_used;
extern int linux_held_handle_slots, linux_held_backing_slots, linux_held_listing_slots;

// Touches the pages of a buffer before the kernel copies a request to it.
void linux_held_touch(void *buffer, size_t length);

enum { linux_held_probes = 64, linux_held_init = 26 };
