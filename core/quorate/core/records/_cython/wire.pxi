# Integers on the wire: big-endian ones in headers, zigzag varints in records.

# Places in the header; format.py draws the whole of it.
cdef enum:
    BATCH_LENGTH_AT = 8
    LEADER_EPOCH_AT = 12
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57
    HEADER_SIZE = 61
    LOG_OVERHEAD = 12
    LENGTH_MIN = 49
    RECORD_SIZE_MIN = 7
    STAMP_SIZE = 16

cdef enum:
    COMPRESSION_BITS = 0x07
    APPEND_TIME_BIT = 0x08
    TRANSACTION_BIT = 0x10
    CONTROL_BATCH_BIT = 0x20

# RecordFault by number; none is 0.
cdef enum:
    GOOD = 0
    BAD_LENGTH = 1
    BAD_TRUNCATED = 2
    BAD_VARINT = 3
    BAD_OFFSET = 4
    BAD_TIMESTAMP = 5
    BAD_FIELD_LENGTH = 6
    BAD_HEADER_COUNT = 7
    BAD_HEADER_KEY = 8
    BAD_TRAILING = 9


cdef inline uint32_t load16(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 8) | at[1]


cdef inline uint32_t load32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline uint64_t load64(const uint8_t* at) noexcept nogil:
    return (<uint64_t>load32(at) << 32) | load32(at + 4)


cdef inline void store16(uint8_t* at, uint32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value


cdef inline void store32(uint8_t* at, uint32_t value) noexcept nogil:
    store16(at, value >> 16)
    store16(at + 2, value)


cdef inline void store64(uint8_t* at, uint64_t value) noexcept nogil:
    store32(at, <uint32_t>(value >> 32))
    store32(at + 4, <uint32_t>value)


cdef inline bint sum_overflows(int64_t a, int64_t b) noexcept nogil:
    return a > INT64_MAX - b if b > 0 else a < INT64_MIN - b


cdef inline bint difference_overflows(int64_t a, int64_t b) noexcept nogil:
    return a < INT64_MIN + b if b > 0 else a > INT64_MAX + b


# --- varints, written

cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ (<uint64_t>0 - (<uint64_t>value >> 63))


cdef inline int varint_size(uint64_t rest) noexcept nogil:
    cdef int size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* at, uint64_t rest) noexcept nogil:
    while rest > 0x7F:
        at[0] = <uint8_t>(rest | 0x80)
        at += 1
        rest >>= 7
    at[0] = <uint8_t>rest
    return at + 1


# --- varints, read

# A stretch of bytes not yet read. `at` never passes `end`.
cdef struct Cursor:
    const uint8_t* at
    const uint8_t* end


cdef inline int64_t unzigzag(uint64_t value) noexcept nogil:
    return <int64_t>((value >> 1) ^ (<uint64_t>0 - (value & 1)))


# Up to `shift_max / 7 + 1` bytes. Bits beyond the 64th are lost here; the callers refuse them.
cdef int read_zigzag(Cursor* cursor, int shift_max, uint64_t* found, uint8_t* last) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while True:
        if cursor.at == cursor.end:
            return BAD_TRUNCATED
        byte = cursor.at[0]
        cursor.at += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        if shift == shift_max:
            return BAD_VARINT
        shift += 7
    found[0] = value
    # what of the tenth byte lies beyond the 64th bit
    last[0] = byte >> 1 if shift == 63 else 0
    return GOOD


cdef inline int read_varint(Cursor* cursor, int32_t* found) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t beyond = 0
    cdef int fault
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        value = cursor.at[0]
        cursor.at += 1
    else:
        fault = read_zigzag(cursor, 28, &value, &beyond)
        if fault != GOOD:
            return fault
        if value > 0xFFFFFFFFULL:
            return BAD_VARINT
    found[0] = <int32_t>unzigzag(value)
    return GOOD


cdef inline int read_varlong(Cursor* cursor, int64_t* found) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t beyond = 0
    cdef int fault
    if cursor.at < cursor.end and cursor.at[0] < 0x80:
        value = cursor.at[0]
        cursor.at += 1
    else:
        fault = read_zigzag(cursor, 63, &value, &beyond)
        if fault != GOOD:
            return fault
        if beyond != 0:
            return BAD_VARINT
    found[0] = unzigzag(value)
    return GOOD
