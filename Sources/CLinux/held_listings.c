#include "include/held_device.h"

#include <string.h>

enum { probes = 64 };

// How many there are in the memory of this process's holder (held_device.c).
extern int linux_held_listing_slots;

static int slot_of(const struct linux_held *held, uint64_t handle) {
    for (uint64_t probe = 0; linux_held_listing_slots > 0 && probe < probes; probe++) {
        int slot = (int)((handle + probe) % (uint64_t)linux_held_listing_slots);
        if (__atomic_load_n(&held->listings[slot].handle, __ATOMIC_ACQUIRE) == handle) return slot;
    }
    return -1;
}

static int claim(struct linux_held *held, uint64_t handle) {
    for (uint64_t probe = 0; linux_held_listing_slots > 0 && probe < probes; probe++) {
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
