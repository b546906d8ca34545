// Most of the work of a reflected CRC-64 by carry-less multiplication (PCLMULQDQ, PMULL).
//
// Bit i of a 16-byte vector stands for x^(127-i), so the bytes of a message are its coefficients in order. The product of two
// 64-bit halves has one bit less than a vector, which makes it one power of x too high: the powers that the caller gives are
// one lower. A vector moved past n bits is first half * x^(n+63) + second half * x^(n-1), modulo the polynomial.
#include "include/CLinux.h"

#if defined(__x86_64__)
#include <wmmintrin.h>
#define WITH_MULTIPLICATION __attribute__((target("pclmul")))
typedef __m128i vector;

int linux_has_crc64_fold(void) { return __builtin_cpu_supports("pclmul") ? 1 : 0; }

WITH_MULTIPLICATION static inline vector load(const void *bytes) { return _mm_loadu_si128(bytes); }

WITH_MULTIPLICATION static inline vector add(vector left, vector right) { return _mm_xor_si128(left, right); }

WITH_MULTIPLICATION static inline vector move(vector value, vector powers) {
    return add(_mm_clmulepi64_si128(value, powers, 0x00), _mm_clmulepi64_si128(value, powers, 0x11));
}
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#define WITH_MULTIPLICATION __attribute__((target("aes")))
typedef uint64x2_t vector;

// HWCAP_PMULL, asm/hwcap.h.
int linux_has_crc64_fold(void) { return (getauxval(AT_HWCAP) & (1UL << 4)) != 0; }

WITH_MULTIPLICATION static inline vector load(const void *bytes) { return vreinterpretq_u64_u8(vld1q_u8(bytes)); }

WITH_MULTIPLICATION static inline vector add(vector left, vector right) { return veorq_u64(left, right); }

WITH_MULTIPLICATION static inline vector move(vector value, vector powers) {
    poly128_t first = vmull_p64((poly64_t)vgetq_lane_u64(value, 0), (poly64_t)vgetq_lane_u64(powers, 0));
    poly128_t second = vmull_high_p64(vreinterpretq_p64_u64(value), vreinterpretq_p64_u64(powers));
    return add(vreinterpretq_u64_p128(first), vreinterpretq_u64_p128(second));
}
#else
int linux_has_crc64_fold(void) { return 0; }
#endif

#ifdef WITH_MULTIPLICATION
WITH_MULTIPLICATION size_t linux_crc64_fold(
    const uint64_t powers[4], uint64_t crc, const void *bytes, size_t length, uint64_t folded[2]) {
    const unsigned char *next = bytes;
    const vector past_four = load(powers), past_one = load(powers + 2);
    const uint64_t begin[2] = {crc, 0};
    vector lanes[4];
    for (int lane = 0; lane < 4; lane++) lanes[lane] = load(next + 16 * lane);
    lanes[0] = add(lanes[0], load(begin));
    size_t taken = 64;
    for (; taken + 64 <= length; taken += 64) {
        for (int lane = 0; lane < 4; lane++) lanes[lane] = add(move(lanes[lane], past_four), load(next + taken + 16 * lane));
    }
    for (int lane = 1; lane < 4; lane++) lanes[lane] = add(move(lanes[lane - 1], past_one), lanes[lane]);
    memcpy(folded, &lanes[3], 16);
    return taken;
}
#else
size_t linux_crc64_fold(
    const uint64_t powers[4], uint64_t crc, const void *bytes, size_t length, uint64_t folded[2]) {
    (void)powers, (void)bytes, (void)length;
    folded[0] = crc, folded[1] = 0;
    return 0;
}
#endif
