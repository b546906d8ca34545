// CRC-32C by the processor's own instruction, which Swift cannot emit without a compiler flag for the whole module.
#include "include/CLinux.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC32C __attribute__((target("sse4.2")))
#define STEP8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define STEP1(crc, byte) _mm_crc32_u8((crc), (byte))

int linux_has_crc32c(void) { return __builtin_cpu_supports("sse4.2") ? 1 : 0; }
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define CRC32C __attribute__((target("crc")))
#define STEP8(crc, word) __crc32cd((crc), (word))
#define STEP1(crc, byte) __crc32cb((crc), (byte))

// HWCAP_CRC32, asm/hwcap.h.
int linux_has_crc32c(void) { return (getauxval(AT_HWCAP) & (1UL << 7)) != 0; }
#else
#define CRC32C
#define STEP8(crc, word) (crc)
#define STEP1(crc, byte) (crc)

int linux_has_crc32c(void) { return 0; }
#endif

CRC32C uint32_t linux_crc32c(uint32_t crc, const void *bytes, size_t length) {
    const unsigned char *next = bytes;
    for (; length >= 8; next += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, next, 8);
        crc = STEP8(crc, word);
    }
    for (; length > 0; next++, length--) crc = STEP1(crc, *next);
    return crc;
}
