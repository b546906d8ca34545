// CRC-32C by the processor's own instruction, which Swift cannot emit without a compiler flag for the whole module.
#include "include/CLinux.h"

#include <pthread.h>

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

// The instruction takes three cycles and one can begin with each: three stretches side by side are three times as fast.
// A stretch's CRC moves past the bytes after it by a matrix over GF(2), applied a byte of the CRC at a time. Twelve
// stretches and a few bytes make 64 KiB.
enum { STRETCH = 5456 };

static uint32_t past_stretch[4][256];
static pthread_once_t tables_are_made = PTHREAD_ONCE_INIT;

static uint32_t multiply(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++) {
        if (vector & 1) sum ^= *matrix;
    }
    return sum;
}

static void make_tables(void) {
    // The matrix of one zero bit, reflected: squared it is that of two, and so on.
    uint32_t power[32], square[32], result[32];
    power[0] = 0x82f63b78;
    for (int bit = 1; bit < 32; bit++) power[bit] = 1u << (bit - 1);
    for (int bit = 0; bit < 32; bit++) result[bit] = 1u << bit;
    for (size_t bits = STRETCH * 8; bits; bits >>= 1) {
        if (bits & 1) {
            for (int bit = 0; bit < 32; bit++) square[bit] = multiply(power, result[bit]);
            memcpy(result, square, sizeof result);
        }
        for (int bit = 0; bit < 32; bit++) square[bit] = multiply(power, power[bit]);
        memcpy(power, square, sizeof power);
    }
    for (uint32_t value = 0; value < 256; value++) {
        for (int place = 0; place < 4; place++) past_stretch[place][value] = multiply(result, value << (8 * place));
    }
}

static uint32_t move_past_stretch(uint32_t crc) {
    return past_stretch[0][crc & 255] ^ past_stretch[1][crc >> 8 & 255] ^ past_stretch[2][crc >> 16 & 255] ^
           past_stretch[3][crc >> 24];
}

CRC32C uint32_t linux_crc32c(uint32_t crc, const void *bytes, size_t length) {
    const unsigned char *next = bytes;
    if (length >= 3 * STRETCH) pthread_once(&tables_are_made, make_tables);
    for (; length >= 3 * STRETCH; next += 3 * STRETCH, length -= 3 * STRETCH) {
        uint32_t second = 0, third = 0;
        for (size_t place = 0; place < STRETCH; place += 8) {
            uint64_t words[3];
            memcpy(words, next + place, 8);
            memcpy(words + 1, next + STRETCH + place, 8);
            memcpy(words + 2, next + 2 * STRETCH + place, 8);
            crc = STEP8(crc, words[0]);
            second = STEP8(second, words[1]);
            third = STEP8(third, words[2]);
        }
        crc = move_past_stretch(move_past_stretch(crc) ^ second) ^ third;
    }
    for (; length >= 8; next += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, next, 8);
        crc = STEP8(crc, word);
    }
    for (; length > 0; next++, length--) crc = STEP1(crc, *next);
    return crc;
}
