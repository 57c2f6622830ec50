# Kafka's hash of a key, which decides its partition.

cdef enum:
    MURMUR_SEED = 0x9747B28C
    MURMUR_MULTIPLIER = 0x5BD1E995


cdef uint32_t murmur2_of(const uint8_t* key, Py_ssize_t length) noexcept:
    cdef uint32_t multiplier = MURMUR_MULTIPLIER
    cdef uint32_t state = <uint32_t>MURMUR_SEED ^ <uint32_t>length
    cdef uint32_t word
    cdef Py_ssize_t at = 0
    while length - at >= 4:
        word = key[at] | <uint32_t>key[at + 1] << 8 | <uint32_t>key[at + 2] << 16 | <uint32_t>key[at + 3] << 24
        word = word * multiplier
        word = (word ^ word >> 24) * multiplier
        state = state * multiplier ^ word
        at += 4
    if length > at:
        word = key[at]
        if length - at > 1:
            word |= <uint32_t>key[at + 1] << 8
        if length - at > 2:
            word |= <uint32_t>key[at + 2] << 16
        state = (state ^ word) * multiplier
    state = (state ^ state >> 13) * multiplier
    return state ^ state >> 15


def murmur2(bytes key not None):
    """The 32-bit hash that Kafka's clients use, as an unsigned number."""
    return murmur2_of(<const uint8_t*>PyBytes_AS_STRING(key), len(key))


def partition_for_key(bytes key not None, uint32_t partition_count):
    """The same key goes to the same partition for as long as their number does not change."""
    if partition_count == 0:
        raise ZeroDivisionError("there is no partition")
    return (murmur2_of(<const uint8_t*>PyBytes_AS_STRING(key), len(key)) & 0x7FFFFFFF) % partition_count


def partitions_for_keys(keys, partition_count):
    """The partition of each key, -1 for a key that is None: one call for many keys."""
    cdef tuple column = tuple(keys)
    cdef uint32_t count = partition_count
    cdef list partitions = [-1] * len(column)
    cdef Py_ssize_t row
    for row in range(len(column)):
        key = column[row]
        if key is None:
            continue
        if not PyBytes_Check(key):
            raise faults.wrong_type("key", key, row)
        partitions[row] = (murmur2_of(<const uint8_t*>PyBytes_AS_STRING(key), len(key)) & 0x7FFFFFFF) % count
    return partitions
