# CRC-32C of a batch.
#
# Calling the crc32c package costs as much as the checksum of five kilobytes, and a log may be full of
# batches smaller than that. So it is computed here, by the instruction that x86-64 has for it;
# elsewhere the package does it. The instruction answers after three cycles but can be started in
# every one: three lanes of the input run at once and are put together at the end. Appending n zero
# bytes to a lane multiplies its checksum by x^(8n) modulo the polynomial, which is a carry-less
# product and one more use of the instruction.

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    #include <string.h>
    #include <wmmintrin.h>
    #define QUORATE_LANE 320

    static uint64_t quorate_shift_one_lane, quorate_shift_two_lanes;

    /* x^n modulo the polynomial, in the order of bits that the instruction uses */
    static uint64_t quorate_power(int n) {
        uint32_t value = 0x80000000u;
        while (n-- > 0) value = (value >> 1) ^ (value & 1 ? 0x82f63b78u : 0);
        return value;
    }

    static int quorate_init_crc32c(void) {
        /* 33: the instruction multiplies by x^32 itself, the carry-less product by x */
        quorate_shift_one_lane = quorate_power(8 * QUORATE_LANE - 33);
        quorate_shift_two_lanes = quorate_power(8 * 2 * QUORATE_LANE - 33);
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
    }

    __attribute__((target("sse4.2,pclmul")))
    static uint64_t quorate_shifted(uint64_t crc, uint64_t factor) {
        __m128i product = _mm_clmulepi64_si128(
            _mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)factor), 0);
        return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
    }

    __attribute__((target("sse4.2,pclmul")))
    static uint32_t quorate_crc32c(const uint8_t *at, size_t size) {
        uint64_t crc = 0xffffffffu, first, second, third;
        for (; size >= 3 * QUORATE_LANE; at += 3 * QUORATE_LANE, size -= 3 * QUORATE_LANE) {
            uint64_t second_crc = 0, third_crc = 0;
            for (size_t i = 0; i < QUORATE_LANE; i += 8) {
                memcpy(&first, at + i, 8);
                memcpy(&second, at + QUORATE_LANE + i, 8);
                memcpy(&third, at + 2 * QUORATE_LANE + i, 8);
                crc = _mm_crc32_u64(crc, first);
                second_crc = _mm_crc32_u64(second_crc, second);
                third_crc = _mm_crc32_u64(third_crc, third);
            }
            crc = quorate_shifted(crc, quorate_shift_two_lanes)
                ^ quorate_shifted(second_crc, quorate_shift_one_lane) ^ third_crc;
        }
        for (; size >= 8; at += 8, size -= 8) {
            memcpy(&first, at, 8);
            crc = _mm_crc32_u64(crc, first);
        }
        for (; size > 0; at++, size--) crc = _mm_crc32_u8((uint32_t)crc, *at);
        return (uint32_t)crc ^ 0xffffffffu;
    }
    #else
    static int quorate_init_crc32c(void) { return 0; }
    static uint32_t quorate_crc32c(const uint8_t *at, size_t size) { (void)at; (void)size; return 0; }
    #endif
    """
    int quorate_init_crc32c() noexcept nogil
    uint32_t quorate_crc32c(const uint8_t* at, size_t size) noexcept nogil

cdef bint HAS_CRC_INSTRUCTION = quorate_init_crc32c()

# The package is a quarter faster per byte; from here on that outweighs the call.
cdef enum:
    PACKAGE_PAYS_FROM = 16384


# The CRC-32C of `size` bytes. They stay where they are: crc32c keeps no reference to its argument.
cdef inline uint32_t checksum(const uint8_t* at, Py_ssize_t size) except? 0:
    if HAS_CRC_INSTRUCTION and size < PACKAGE_PAYS_FROM:
        return quorate_crc32c(at, <size_t>size)
    return _crc32c(PyMemoryView_FromMemory(<char*>at, size, PyBUF_READ))
