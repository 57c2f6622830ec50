# Headers: parse, check, walk and stamp whole batches without looking at their records.

cdef tuple COMPRESSIONS = tuple(Compression)
cdef tuple TIMESTAMP_TYPES = tuple(TimestampType)


@cython.final
@cython.freelist(256)
cdef class BatchHeader:
    """The header of one batch. Its fields have the names and the values of the wire."""

    cdef readonly int64_t base_offset
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef readonly int64_t producer_id
    cdef readonly int32_t batch_length
    cdef readonly int32_t leader_epoch
    cdef readonly uint32_t crc
    cdef readonly int32_t last_offset_delta
    cdef readonly int32_t base_sequence
    cdef readonly int32_t record_count
    cdef readonly int16_t attributes
    cdef readonly int16_t producer_epoch
    cdef readonly signed char magic

    def __init__(
        self, int64_t base_offset, int32_t batch_length, int32_t leader_epoch, signed char magic,
        uint32_t crc, int16_t attributes, int32_t last_offset_delta, int64_t base_timestamp,
        int64_t max_timestamp, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence,
        int32_t record_count,
    ):
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def last_offset(self):
        """Inclusive. After compaction no record may be left there, yet the batch covers it."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self):
        return self.base_offset + self.last_offset_delta + 1

    @property
    def size_in_bytes(self):
        """Of the whole batch: the next one starts that many bytes further on."""
        return <int64_t>LOG_OVERHEAD + self.batch_length

    @property
    def compression(self):
        return COMPRESSIONS[self.attributes & COMPRESSION_BITS]

    @property
    def timestamp_type(self):
        return TIMESTAMP_TYPES[(self.attributes & APPEND_TIME_BIT) != 0]

    @property
    def is_transactional(self):
        return (self.attributes & TRANSACTION_BIT) != 0

    @property
    def is_control(self):
        return (self.attributes & CONTROL_BATCH_BIT) != 0

    @property
    def last_sequence(self):
        """The last record's sequence number; after 2**31 - 1 comes 0."""
        if self.base_sequence == -1:
            return -1
        return (<int64_t>self.base_sequence + self.last_offset_delta) & INT32_MAX

    def __eq__(self, other):
        if not isinstance(other, BatchHeader):
            return NotImplemented
        return _fields_of(self) == _fields_of(<BatchHeader>other)

    def __repr__(self):
        return repr(pure.BatchHeader(*_fields_of(self)))


cdef tuple _fields_of(BatchHeader header):
    return (
        header.base_offset, header.batch_length, header.leader_epoch, header.magic, header.crc,
        header.attributes, header.last_offset_delta, header.base_timestamp, header.max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, header.record_count,
    )


cdef BatchHeader read_fields(const uint8_t* at):
    cdef BatchHeader header = BatchHeader.__new__(BatchHeader)
    header.base_offset = <int64_t>load64(at)
    header.batch_length = <int32_t>load32(at + BATCH_LENGTH_AT)
    header.leader_epoch = <int32_t>load32(at + LEADER_EPOCH_AT)
    header.magic = <signed char>at[MAGIC_AT]
    header.crc = load32(at + CRC_AT)
    header.attributes = <int16_t>load16(at + ATTRIBUTES_AT)
    header.last_offset_delta = <int32_t>load32(at + LAST_OFFSET_DELTA_AT)
    header.base_timestamp = <int64_t>load64(at + BASE_TIMESTAMP_AT)
    header.max_timestamp = <int64_t>load64(at + MAX_TIMESTAMP_AT)
    header.producer_id = <int64_t>load64(at + PRODUCER_ID_AT)
    header.producer_epoch = <int16_t>load16(at + PRODUCER_EPOCH_AT)
    header.base_sequence = <int32_t>load32(at + BASE_SEQUENCE_AT)
    header.record_count = <int32_t>load32(at + RECORD_COUNT_AT)
    return header


# Whether every field is in its range: the pure parser knows which one is not, and says so.
cdef bint fields_are_good(BatchHeader header) noexcept:
    cdef int32_t compression = header.attributes & COMPRESSION_BITS
    cdef int64_t body_size = <int64_t>header.batch_length - LENGTH_MIN
    if header.magic != 2 or body_size < 0 or compression > 4:
        return False
    if header.base_offset < 0 or header.base_offset > INT64_MAX - INT32_MAX - 1:
        return False
    if header.producer_id < -1 or header.producer_epoch < -1 or header.base_sequence < -1:
        return False
    if header.last_offset_delta < 0 or header.record_count < 0:
        return False
    if header.record_count > <int64_t>header.last_offset_delta + 1:
        return False
    if compression == 0:
        return <int64_t>header.record_count * RECORD_SIZE_MIN <= body_size
    return header.record_count == 0 or body_size > 0


cdef inline int64_t size_of(BatchHeader header) noexcept:
    return <int64_t>LOG_OVERHEAD + header.batch_length


# The header at `position`, or None if anything at all is wrong with it or there is too little.
cdef BatchHeader try_header(Py_buffer* view, Py_ssize_t position):
    if position < 0 or position > view.len - HEADER_SIZE:
        return None
    cdef BatchHeader header = read_fields(<const uint8_t*>view.buf + position)
    return header if fields_are_good(header) else None


cdef bint crc_is_good(Py_buffer* view, Py_ssize_t position, BatchHeader header) except -1:
    cdef const uint8_t* covered = <const uint8_t*>view.buf + position + ATTRIBUTES_AT
    return checksum(covered, size_of(header) - ATTRIBUTES_AT) == header.crc


def parse_header(buffer, Py_ssize_t position=0):
    """The header of the batch at `position`, with every field in its range; the CRC is not checked.

    Raises CorruptBatch, or UnsupportedBatch for a batch of an older format or unknown compression.
    """
    cdef Py_buffer view
    cdef BatchHeader header
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        header = try_header(&view, position)
    finally:
        PyBuffer_Release(&view)
    if header is None:
        return refused(pure.parse_header, buffer, position)
    return header


# The fast checks found a fault: let the pure ones name it.
cdef refused(reference, buffer, Py_ssize_t position):
    reference(buffer, position)
    raise AssertionError(f"{reference.__name__} accepts what its compiled twin refuses")


# The header of a whole batch at `position`, or None; `buffer` is what `view` shows.
cdef BatchHeader checked_header(buffer, Py_buffer* view, Py_ssize_t position):
    cdef BatchHeader header = try_header(view, position)
    if header is None or size_of(header) > view.len - position or not crc_is_good(view, position, header):
        refused(pure.check_batch, buffer, position)
    return header


def check_batch(buffer, Py_ssize_t position=0):
    """Like `parse_header`; in addition the whole batch is there, and matches its CRC."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        return checked_header(buffer, &view, position)
    finally:
        PyBuffer_Release(&view)


def scan_batches(buffer, Py_ssize_t position=0):
    """Walk from batch to batch, checking each, until the end of the buffer or the first fault."""
    cdef Py_buffer view
    cdef BatchHeader header
    cdef list headers = []
    if position < 0:
        raise ValueError(f"position is {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        while position < view.len:
            header = try_header(&view, position)
            if header is None or size_of(header) > view.len - position:
                break
            if not crc_is_good(&view, position, header):
                break
            headers.append(header)
            position += size_of(header)
        else:
            return ScanResult(headers, position, None)
    finally:
        PyBuffer_Release(&view)
    # The pure scan, from here, stops at once and knows why.
    end, fault = pure.scan_batches(buffer, position)[1:]
    assert end == position and fault is not None
    return ScanResult(headers, end, fault)


def patch_header(buffer, Py_ssize_t position, *, int64_t base_offset, int32_t leader_epoch):
    """Stamp a batch in place, as a leader does on append; the CRC covers neither field."""
    cdef Py_buffer view
    cdef uint8_t* at
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if position < 0 or position > view.len - HEADER_SIZE:
            raise ValueError(f"no header at position {position} of {view.len} bytes")
        at = <uint8_t*>view.buf + position
        store64(at, <uint64_t>base_offset)
        store32(at + LEADER_EPOCH_AT, <uint32_t>leader_epoch)
    finally:
        PyBuffer_Release(&view)


def stamped_prefix(BatchHeader header not None, *, int64_t base_offset, int32_t leader_epoch):
    """The first 16 bytes of the batch, stamped anew: written with ``batch[16:]`` nothing is copied."""
    cdef uint8_t prefix[STAMP_SIZE]
    store64(prefix, <uint64_t>base_offset)
    store32(prefix + BATCH_LENGTH_AT, <uint32_t>header.batch_length)
    store32(prefix + LEADER_EPOCH_AT, <uint32_t>leader_epoch)
    return PyBytes_FromStringAndSize(<char*>prefix, STAMP_SIZE)
