// CRC-32C, and on arm64 CRC-32 too, by the processor's own instructions, which Swift cannot emit without a compiler flag for
// the whole module.
#include "include/CLinux.h"

#include <pthread.h>

#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#include <nmmintrin.h>
#define WITH_CRC __attribute__((target("sse4.2")))

WITH_CRC INLINE uint32_t step8(int is_castagnoli, uint32_t crc, uint64_t word) {
    (void)is_castagnoli;
    return (uint32_t)_mm_crc32_u64(crc, word);
}

WITH_CRC INLINE uint32_t step1(int is_castagnoli, uint32_t crc, unsigned char byte) {
    (void)is_castagnoli;
    return _mm_crc32_u8(crc, byte);
}

int linux_has_crc32c(void) { return __builtin_cpu_supports("sse4.2") ? 1 : 0; }
// The instruction knows one polynomial.
int linux_has_crc32(void) { return 0; }
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define WITH_CRC __attribute__((target("crc")))

WITH_CRC INLINE uint32_t step8(int is_castagnoli, uint32_t crc, uint64_t word) {
    return is_castagnoli ? __crc32cd(crc, word) : __crc32d(crc, word);
}

WITH_CRC INLINE uint32_t step1(int is_castagnoli, uint32_t crc, unsigned char byte) {
    return is_castagnoli ? __crc32cb(crc, byte) : __crc32b(crc, byte);
}

// HWCAP_CRC32, asm/hwcap.h.
int linux_has_crc32c(void) { return (getauxval(AT_HWCAP) & (1UL << 7)) != 0; }
int linux_has_crc32(void) { return linux_has_crc32c(); }
#else
#define WITH_CRC

INLINE uint32_t step8(int is_castagnoli, uint32_t crc, uint64_t word) { return (void)is_castagnoli, (void)word, crc; }
INLINE uint32_t step1(int is_castagnoli, uint32_t crc, unsigned char byte) { return (void)is_castagnoli, (void)byte, crc; }

int linux_has_crc32c(void) { return 0; }
int linux_has_crc32(void) { return 0; }
#endif

// The instruction takes three cycles and one can begin with each: three stretches side by side are three times as fast.
// A stretch's CRC moves past the bytes after it by a matrix over GF(2), applied a byte of the CRC at a time. Twelve
// stretches and a few bytes make 64 KiB.
enum { STRETCH = 5456 };

struct past_stretch {
    uint32_t table[4][256];
};

static struct past_stretch past_castagnoli, past_ieee;
static pthread_once_t castagnoli_is_made = PTHREAD_ONCE_INIT, ieee_is_made = PTHREAD_ONCE_INIT;

static uint32_t multiply(const uint32_t *matrix, uint32_t vector) {
    uint32_t sum = 0;
    for (; vector; vector >>= 1, matrix++) {
        if (vector & 1) sum ^= *matrix;
    }
    return sum;
}

static void make(struct past_stretch *past, uint32_t polynomial) {
    // The matrix of one zero bit, reflected: squared it is that of two, and so on.
    uint32_t power[32], square[32], result[32];
    power[0] = polynomial;
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
        for (int place = 0; place < 4; place++) past->table[place][value] = multiply(result, value << (8 * place));
    }
}

static void make_castagnoli(void) { make(&past_castagnoli, 0x82f63b78); }
static void make_ieee(void) { make(&past_ieee, 0xedb88320); }

INLINE uint32_t move(const struct past_stretch *past, uint32_t crc) {
    return past->table[0][crc & 255] ^ past->table[1][crc >> 8 & 255] ^ past->table[2][crc >> 16 & 255] ^
           past->table[3][crc >> 24];
}

WITH_CRC INLINE uint32_t update(
    int is_castagnoli, const struct past_stretch *past, uint32_t crc, const void *bytes, size_t length) {
    const unsigned char *next = bytes;
    for (; length >= 3 * STRETCH; next += 3 * STRETCH, length -= 3 * STRETCH) {
        uint32_t second = 0, third = 0;
        for (size_t place = 0; place < STRETCH; place += 8) {
            uint64_t words[3];
            memcpy(words, next + place, 8);
            memcpy(words + 1, next + STRETCH + place, 8);
            memcpy(words + 2, next + 2 * STRETCH + place, 8);
            crc = step8(is_castagnoli, crc, words[0]);
            second = step8(is_castagnoli, second, words[1]);
            third = step8(is_castagnoli, third, words[2]);
        }
        crc = move(past, move(past, crc) ^ second) ^ third;
    }
    for (; length >= 8; next += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, next, 8);
        crc = step8(is_castagnoli, crc, word);
    }
    for (; length > 0; next++, length--) crc = step1(is_castagnoli, crc, *next);
    return crc;
}

WITH_CRC uint32_t linux_crc32c(uint32_t crc, const void *bytes, size_t length) {
    if (length >= 3 * STRETCH) pthread_once(&castagnoli_is_made, make_castagnoli);
    return update(1, &past_castagnoli, crc, bytes, length);
}

WITH_CRC uint32_t linux_crc32(uint32_t crc, const void *bytes, size_t length) {
    if (length >= 3 * STRETCH) pthread_once(&ieee_is_made, make_ieee);
    return update(0, &past_ieee, crc, bytes, length);
}
