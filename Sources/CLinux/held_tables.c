// What a worker notes of open files and directories for the next one: tables in linux_held with open addressing.
#include "held_internal.h"

#include <string.h>

void linux_held_opened(struct linux_held *held, uint64_t handle, uint64_t inode) {
    for (uint64_t probe = 0; linux_held_handle_slots > 0 && probe < linux_held_probes; probe++) {
        uint64_t empty = 0, slot = (handle + probe) % linux_held_handle_slots;
        if (!__atomic_compare_exchange_n(
                &held->handles[slot].handle, &empty, handle, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
        __atomic_store_n(&held->handles[slot].inode, inode, __ATOMIC_RELEASE);
        return;
    }
    if (linux_held_backing_slots > 0) __atomic_store_n(&held->has_lost_handles, 1, __ATOMIC_RELEASE);
}

void linux_held_closed(struct linux_held *held, uint64_t handle) {
    for (uint64_t probe = 0; linux_held_handle_slots > 0 && probe < linux_held_probes; probe++) {
        uint64_t slot = (handle + probe) % linux_held_handle_slots;
        if (__atomic_load_n(&held->handles[slot].handle, __ATOMIC_RELAXED) != handle) continue;
        __atomic_store_n(&held->handles[slot].inode, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&held->handles[slot].handle, 0, __ATOMIC_RELEASE);
        return;
    }
}

int linux_held_open_file(const struct linux_held *held, int slot, uint64_t *handle, uint64_t *inode) {
    if (slot >= linux_held_handle_slots) return -1;
    *handle = held->handles[slot].handle;
    *inode = held->handles[slot].inode;
    return *handle != 0 && *inode != 0;
}

int linux_held_backed(struct linux_held *held, uint64_t inode, uint64_t file, int32_t backing) {
    for (uint64_t probe = 0; linux_held_backing_slots > 0 && probe < linux_held_probes; probe++) {
        uint64_t empty = 0, slot = (inode + probe) % linux_held_backing_slots;
        if (!__atomic_compare_exchange_n(
                &held->backings[slot].inode, &empty, inode, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
        __atomic_store_n(&held->backings[slot].file, file, __ATOMIC_RELAXED);
        __atomic_store_n(&held->backings[slot].backing, backing, __ATOMIC_RELEASE);
        return 1;
    }
    return 0;
}

void linux_held_unbacked(struct linux_held *held, uint64_t inode) {
    for (uint64_t probe = 0; linux_held_backing_slots > 0 && probe < linux_held_probes; probe++) {
        uint64_t slot = (inode + probe) % linux_held_backing_slots;
        if (__atomic_load_n(&held->backings[slot].inode, __ATOMIC_RELAXED) != inode) continue;
        __atomic_store_n(&held->backings[slot].backing, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&held->backings[slot].inode, 0, __ATOMIC_RELEASE);
        return;
    }
}

int linux_held_backing(const struct linux_held *held, int slot, uint64_t *inode, uint64_t *file, int32_t *backing) {
    if (slot >= linux_held_backing_slots) return -1;
    *inode = held->backings[slot].inode;
    *file = held->backings[slot].file;
    *backing = held->backings[slot].backing;
    return *inode != 0 && *backing != 0;
}

static int slot_of(const struct linux_held *held, uint64_t handle) {
    for (uint64_t probe = 0; linux_held_listing_slots > 0 && probe < linux_held_probes; probe++) {
        int slot = (int)((handle + probe) % (uint64_t)linux_held_listing_slots);
        if (__atomic_load_n(&held->listings[slot].handle, __ATOMIC_ACQUIRE) == handle) return slot;
    }
    return -1;
}

static int claim(struct linux_held *held, uint64_t handle) {
    for (uint64_t probe = 0; linux_held_listing_slots > 0 && probe < linux_held_probes; probe++) {
        int slot = (int)((handle + probe) % (uint64_t)linux_held_listing_slots);
        uint64_t empty = 0;
        if (__atomic_compare_exchange_n(
                &held->listings[slot].handle, &empty, handle, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return slot;
    }
    return -1;
}

void linux_held_listed(struct linux_held *held, uint64_t handle, uint64_t offset, const void *name, size_t length) {
    int slot = slot_of(held, handle);
    if (slot < 0) slot = claim(held, handle);
    if (slot < 0) return;
    // A process that is killed in between leaves nothing that could be taken for a place.
    __atomic_store_n(&held->listings[slot].length, 0, __ATOMIC_SEQ_CST);
    if (length == 0 || length > sizeof held->listings[slot].name) return;
    held->listings[slot].offset = offset;
    memcpy(held->listings[slot].name, name, length);
    __atomic_store_n(&held->listings[slot].length, (uint32_t)length, __ATOMIC_SEQ_CST);
}

void linux_held_unlisted(struct linux_held *held, uint64_t handle) {
    int slot = slot_of(held, handle);
    if (slot < 0) return;
    __atomic_store_n(&held->listings[slot].length, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&held->listings[slot].handle, 0, __ATOMIC_RELEASE);
}

size_t linux_held_listing(const struct linux_held *held, uint64_t handle, uint64_t *offset, void *name) {
    int slot = slot_of(held, handle);
    uint32_t length = slot < 0 ? 0 : __atomic_load_n(&held->listings[slot].length, __ATOMIC_ACQUIRE);
    if (length == 0 || length > sizeof held->listings[slot].name) return 0;
    *offset = held->listings[slot].offset;
    memcpy(name, held->listings[slot].name, length);
    return length;
}
