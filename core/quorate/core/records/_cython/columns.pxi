# A batch to the buffers of Arrow arrays: measure all records, allocate once, fill.

# How much a column of nullable byte strings holds.
cdef struct ColumnSize:
    int64_t data
    int64_t nulls


cdef struct BatchSize:
    ColumnSize key
    ColumnSize value
    int64_t header_count
    ColumnSize header_key
    ColumnSize header_value


# A column being filled: places in buffers that `ColumnBuffers` holds.
cdef struct ColumnWriter:
    uint8_t* validity  # NULL if no row is null
    int32_t* offsets
    uint8_t* data
    int32_t data_size


cdef inline void measure(ColumnSize* column, Slice* field) noexcept:
    if field.size < 0:
        column.nulls += 1
    else:
        column.data += field.size


cdef inline void put_slice(ColumnWriter* column, Py_ssize_t row, Slice* field) noexcept:
    if field.size >= 0:
        memcpy(column.data + column.data_size, field.at, field.size)
        column.data_size += <int32_t>field.size
        if column.validity != NULL:
            column.validity[row >> 3] |= <uint8_t>(1 << (row & 7))
    column.offsets[row + 1] = column.data_size


# The sizes of all columns. No record can be bad after this.
cdef int measure_batch(BatchHeader header, Py_buffer* payload, BatchSize* size) except -1:
    cdef Cursor cursor = Cursor(<const uint8_t*>payload.buf, <const uint8_t*>payload.buf + payload.len)
    cdef RawRecord raw
    cdef int32_t last_delta = -1
    cdef int fault
    for index in range(header.record_count):
        fault = read_record(&cursor, header.base_timestamp, &raw)
        if fault == GOOD and raw.header_count:
            fault = measure_headers(&raw, size)
        if fault == GOOD and not last_delta < raw.offset_delta <= header.last_offset_delta:
            fault = BAD_OFFSET
        if fault != GOOD:
            raise faults.record_error(fault, index, header.base_offset)
        last_delta = raw.offset_delta
        measure(&size.key, &raw.key)
        measure(&size.value, &raw.value)
    if cursor.at != cursor.end:
        raise faults.trailing_bytes(cursor.end - cursor.at, header.base_offset)
    return 0


cdef int measure_headers(RawRecord* record, BatchSize* size) except -1:
    cdef Slice key
    cdef Slice value
    cdef int fault
    for _ in range(record.header_count):
        fault = read_header(&record.headers, &key, &value)
        if fault != GOOD:
            return fault
        try:
            PyUnicode_DecodeUTF8(<const char*>key.at, key.size, NULL)
        except UnicodeDecodeError:
            return BAD_HEADER_KEY
        measure(&size.header_key, &key)
        measure(&size.header_value, &value)
    size.header_count += record.header_count
    return GOOD if record.headers.at == record.headers.end else BAD_TRAILING


cdef bytes uninitialized(int64_t size):
    return PyBytes_FromStringAndSize(NULL, size)


# Buffers for a column of `rows` rows, and a writer into them; they outlive it in the result.
cdef object new_column(int64_t rows, ColumnSize* size, ColumnWriter* writer):
    cdef bytes validity = bytes((rows + 7) // 8) if size.nulls else None
    cdef bytes offsets = uninitialized((rows + 1) * sizeof(int32_t))
    cdef bytes data = uninitialized(size.data)
    writer.validity = NULL if validity is None else <uint8_t*>PyBytes_AS_STRING(validity)
    writer.offsets = <int32_t*>PyBytes_AS_STRING(offsets)
    writer.offsets[0] = 0
    writer.data = <uint8_t*>PyBytes_AS_STRING(data)
    writer.data_size = 0
    return BinaryColumn(validity, offsets, data)


def decode_columns(
    buffer, Py_ssize_t position=0, *, bint headers=False,
    decompressed_bytes_max=DECOMPRESSED_BYTES_MAX_DEFAULT,
):
    """Like `decode_batch`, into buffers laid out as Arrow's arrays, and no object for any record."""
    cdef Py_buffer batch
    cdef Py_buffer payload
    cdef BatchHeader header
    cdef BatchSize size
    PyObject_GetBuffer(buffer, &batch, PyBUF_SIMPLE)
    try:
        header = checked_header(buffer, &batch, position)
        open_body(header, &batch, position, decompressed_bytes_max, &payload)
        try:
            memset(&size, 0, sizeof(size))
            measure_batch(header, &payload, &size)
            return fill_columns(header, &payload, &size, headers)
        finally:
            PyBuffer_Release(&payload)
    finally:
        PyBuffer_Release(&batch)


cdef object fill_columns(BatchHeader header, Py_buffer* payload, BatchSize* size, bint with_headers):
    cdef Cursor cursor = Cursor(<const uint8_t*>payload.buf, <const uint8_t*>payload.buf + payload.len)
    cdef RawRecord raw
    cdef ColumnWriter keys
    cdef ColumnWriter values
    cdef int32_t count = header.record_count
    cdef bint append_time = (header.attributes & APPEND_TIME_BIT) != 0
    cdef bytes offset_bytes = uninitialized(<int64_t>count * sizeof(int64_t))
    cdef bytes timestamp_bytes = uninitialized(<int64_t>count * sizeof(int64_t))
    cdef int64_t* offsets = <int64_t*>PyBytes_AS_STRING(offset_bytes)
    cdef int64_t* timestamps = <int64_t*>PyBytes_AS_STRING(timestamp_bytes)
    key_column = new_column(count, &size.key, &keys)
    value_column = new_column(count, &size.value, &values)
    for row in range(count):
        read_record(&cursor, header.base_timestamp, &raw)
        offsets[row] = header.base_offset + raw.offset_delta
        timestamps[row] = header.max_timestamp if append_time else raw.timestamp
        put_slice(&keys, row, &raw.key)
        put_slice(&values, row, &raw.value)
    header_columns = fill_headers(header, payload, size) if with_headers else None
    return RecordColumns(count, offset_bytes, timestamp_bytes, key_column, value_column, header_columns)


cdef object fill_headers(BatchHeader header, Py_buffer* payload, BatchSize* size):
    cdef Cursor cursor = Cursor(<const uint8_t*>payload.buf, <const uint8_t*>payload.buf + payload.len)
    cdef RawRecord raw
    cdef Slice key
    cdef Slice value
    cdef ColumnWriter keys
    cdef ColumnWriter values
    cdef int32_t written = 0
    cdef bytes starts = uninitialized((<int64_t>header.record_count + 1) * sizeof(int32_t))
    cdef int32_t* start = <int32_t*>PyBytes_AS_STRING(starts)
    key_column = new_column(size.header_count, &size.header_key, &keys)
    value_column = new_column(size.header_count, &size.header_value, &values)
    start[0] = 0
    for row in range(header.record_count):
        read_record(&cursor, header.base_timestamp, &raw)
        for _ in range(raw.header_count):
            read_header(&raw.headers, &key, &value)
            put_slice(&keys, written, &key)
            put_slice(&values, written, &value)
            written += 1
        start[row + 1] = written
    return HeaderColumns(starts, key_column, value_column)
