# Records to a batch: check and size every row, allocate once, write every row.

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    const char* PyUnicode_AsUTF8AndSize(PyObject*, Py_ssize_t*) except NULL
    PyObject** PySequence_Fast_ITEMS(PyObject*)
    Py_ssize_t PySequence_Fast_GET_SIZE(PyObject*)
    PyObject* PyTuple_GetItemPointer "PyTuple_GET_ITEM" (PyObject*, Py_ssize_t)
    Py_ssize_t PyBytes_SizeOf "PyBytes_GET_SIZE" (PyObject*)
    char* PyBytes_Pointer "PyBytes_AS_STRING" (PyObject*)

cdef array.array INT64S = array.array("q")
cdef PyObject* NONE = <PyObject*>None
cdef enum:
    # a null field's length, -1, on the wire
    NULL_LENGTH = 1


# What the caller says of the batch as a whole, in range.
cdef struct Fields:
    int64_t base_offset
    int64_t leader_epoch
    int64_t compression
    int64_t timestamp_type
    int64_t append_timestamp
    int64_t producer_id
    int64_t producer_epoch
    int64_t base_sequence
    uint32_t flags


# The columns of a batch: items of tuples that the caller of every function below holds. Keys and
# values are bytes or None; a row's headers are a tuple or list of (str, bytes or None).
cdef struct Rows:
    Py_ssize_t count
    int64_t base_timestamp
    int64_t* timestamps        # NULL if all are the base timestamp
    PyObject** keys            # NULL if all are null
    PyObject** values
    PyObject** headers         # NULL if there are none


def encode_batch(
    records, *, base_offset=0, leader_epoch=-1, compression=Compression.NONE,
    timestamp_type=TimestampType.CREATE_TIME, append_timestamp_ms=None, producer_id=-1,
    producer_epoch=-1, base_sequence=-1, is_transactional=False, is_control=False,
):
    """A batch of `records`, with consecutive offsets from `base_offset` on.

    A body that compression would not make smaller is stored as it is. Raises InvalidRecord.
    """
    cdef Fields fields
    cdef tuple rows = tuple(records)
    cdef Py_ssize_t count = len(rows)
    cdef list timestamps = [None] * count
    cdef list keys = [None] * count
    cdef list values = [None] * count
    cdef list headers = [None] * count
    cdef Py_ssize_t row
    cdef bint any_key = False
    cdef bint any_header = False
    for row in range(count):
        record = rows[row]
        if type(record) is Record:
            timestamps[row] = <object>PyTuple_GET_ITEM(record, 1)
            keys[row] = <object>PyTuple_GET_ITEM(record, 2)
            values[row] = <object>PyTuple_GET_ITEM(record, 3)
            headers[row] = <object>PyTuple_GET_ITEM(record, 4)
        else:
            timestamps[row] = record.timestamp
            keys[row] = record.key
            values[row] = record.value
            headers[row] = record.headers
        any_key = any_key or keys[row] is not None
        any_header = any_header or headers[row] is not NO_HEADERS
    fill_fields(
        &fields, base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms, producer_id,
        producer_epoch, base_sequence, is_transactional, is_control,
    )
    return encode(
        &fields, tuple(values), tuple(keys) if any_key else None, None, timestamps,
        tuple(headers) if any_header else None,
    )


def encode_values(
    values, *, timestamp_ms=None, timestamps=None, keys=None, headers=None, base_offset=0,
    leader_epoch=-1, compression=Compression.NONE, timestamp_type=TimestampType.CREATE_TIME,
    append_timestamp_ms=None, producer_id=-1, producer_epoch=-1, base_sequence=-1,
    is_transactional=False, is_control=False,
):
    """Like `encode_batch`, from columns: one call for many records and no object for any.

    All records carry `timestamp_ms`, or each its own of `timestamps`: exactly one of the two.
    """
    cdef Fields fields
    cdef tuple value_column = tuple(values)
    cdef tuple key_column = None if keys is None else tuple(keys)
    cdef tuple header_column = None if headers is None else tuple(headers)
    cdef list timestamp_column = None if timestamps is None else list(timestamps)
    check_lengths(len(value_column), timestamp_ms, timestamp_column, key_column, header_column)
    fill_fields(
        &fields, base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms, producer_id,
        producer_epoch, base_sequence, is_transactional, is_control,
    )
    return encode(&fields, value_column, key_column, timestamp_ms, timestamp_column, header_column)


cdef bint in_range(object found, int64_t low, int64_t high, int64_t* value) except -1:
    cdef int overflow = 0
    if not PyLong_Check(found):
        return False
    value[0] = PyLong_AsLongLongAndOverflow(found, &overflow)
    return overflow == 0 and low <= value[0] <= high


cdef int fill_fields(
    Fields* fields, base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms,
    producer_id, producer_epoch, base_sequence, bint is_transactional, bint is_control,
) except -1:
    cdef bint good = (
        in_range(base_offset, 0, INT64_MAX - INT32_MAX - 1, &fields.base_offset)
        and in_range(leader_epoch, -1, INT32_MAX, &fields.leader_epoch)
        and in_range(compression, 0, 4, &fields.compression)
        and in_range(timestamp_type, 0, 1, &fields.timestamp_type)
        and in_range(producer_id, -1, INT64_MAX, &fields.producer_id)
        and in_range(producer_epoch, -1, 0x7FFF, &fields.producer_epoch)
        and in_range(base_sequence, -1, INT32_MAX, &fields.base_sequence)
    )
    if good and append_timestamp_ms is None:
        good = fields.timestamp_type == 0
    elif good:
        good = fields.timestamp_type == 1 and in_range(
            append_timestamp_ms, INT64_MIN, INT64_MAX, &fields.append_timestamp
        )
    if not good:
        BatchFields(
            base_offset, leader_epoch, compression, timestamp_type, append_timestamp_ms, producer_id,
            producer_epoch, base_sequence, is_transactional, is_control,
        ).check()
        raise AssertionError("BatchFields accepts what its compiled twin refuses")
    fields.flags = APPEND_TIME_BIT if fields.timestamp_type else 0
    fields.flags |= (TRANSACTION_BIT if is_transactional else 0) | (CONTROL_BATCH_BIT if is_control else 0)
    return 0


# --- columns, checked: Python code may run here, so no pointers yet

cdef bint are_fields(tuple column) noexcept:
    cdef PyObject** items = PySequence_Fast_ITEMS(<PyObject*>column)
    cdef Py_ssize_t row
    for row in range(PyTuple_GET_SIZE(column)):
        if items[row] != NONE and not PyBytes_Check(<object>items[row]):
            return False
    return True


# Encodes every key once: its UTF-8 is then kept by the string, and cannot fail later.
cdef bint are_headers(tuple column) except -1:
    cdef Py_ssize_t size
    for headers in column:
        if not isinstance(headers, (tuple, list)):
            return False
        for header in headers:
            if not PyTuple_CheckExact(header) or PyTuple_GET_SIZE(header) != 2:
                return False
            key = <object>PyTuple_GET_ITEM(header, 0)
            value = <object>PyTuple_GET_ITEM(header, 1)
            if not PyUnicode_Check(key) or not (value is None or PyBytes_Check(value)):
                return False
            try:
                PyUnicode_AsUTF8AndSize(<PyObject*>key, &size)
            except UnicodeEncodeError:
                return False
    return True


# Other buffers become bytes. Memory is read by pointer after this, so the result is looked at again.
cdef tuple plain_fields(str what, tuple column):
    if column is None or are_fields(column):
        return column
    column = tuple(as_fields(what, column))
    if not are_fields(column):
        raise AssertionError("as_fields accepts what its compiled twin refuses")
    return column


cdef tuple plain_headers(tuple column):
    if column is None or are_headers(column):
        return column
    column = tuple(as_headers(column))
    if not are_headers(column):
        raise AssertionError("as_headers accepts what its compiled twin refuses")
    return column


cdef array.array int64_column(list timestamps):
    cdef Py_ssize_t row
    cdef array.array column = array.clone(INT64S, len(timestamps), False)
    for row in range(len(timestamps)):
        if not in_range(timestamps[row], INT64_MIN, INT64_MAX, <int64_t*>&column.data.as_longlongs[row]):
            return array.array("q", as_timestamps(timestamps))
    return column


# --- rows, sized and written: no Python code from here to the end of write_rows

cdef inline int64_t field_size(PyObject* field) noexcept:
    if field == NONE:
        return 1
    return varint_size(<uint64_t>PyBytes_SizeOf(field) << 1) + PyBytes_SizeOf(field)


cdef inline uint8_t* put_field(uint8_t* at, PyObject* field) noexcept:
    if field == NONE:
        at[0] = NULL_LENGTH
        return at + 1
    cdef Py_ssize_t size = PyBytes_SizeOf(field)
    at = put_varint(at, <uint64_t>size << 1)
    memcpy(at, PyBytes_Pointer(field), size)
    return at + size


cdef int64_t headers_size(PyObject* headers) except -1:
    cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(headers)
    cdef PyObject** items = PySequence_Fast_ITEMS(headers)
    cdef int64_t size = varint_size(<uint64_t>count << 1)
    cdef Py_ssize_t key_size
    for index in range(count):
        PyUnicode_AsUTF8AndSize(PyTuple_GetItemPointer(items[index], 0), &key_size)
        size += varint_size(<uint64_t>key_size << 1) + key_size
        size += field_size(PyTuple_GetItemPointer(items[index], 1))
    return size


cdef uint8_t* put_headers(uint8_t* at, PyObject* headers) except NULL:
    cdef Py_ssize_t count = PySequence_Fast_GET_SIZE(headers)
    cdef PyObject** items = PySequence_Fast_ITEMS(headers)
    cdef Py_ssize_t key_size
    cdef const char* key
    at = put_varint(at, <uint64_t>count << 1)
    for index in range(count):
        key = PyUnicode_AsUTF8AndSize(PyTuple_GetItemPointer(items[index], 0), &key_size)
        at = put_varint(at, <uint64_t>key_size << 1)
        memcpy(at, key, key_size)
        at = put_field(at + key_size, PyTuple_GetItemPointer(items[index], 1))
    return at


# What a record's length says: its size without that length itself.
cdef inline int64_t row_size(Rows* rows, Py_ssize_t row) except -1:
    cdef int64_t delta = rows.timestamps[row] - rows.base_timestamp if rows.timestamps != NULL else 0
    cdef int64_t size = 1 + varint_size(zigzag(delta)) + varint_size(<uint64_t>row << 1)
    size += field_size(rows.keys[row]) if rows.keys != NULL else 1
    size += field_size(rows.values[row])
    size += headers_size(rows.headers[row]) if rows.headers != NULL else 1
    return size


cdef inline uint8_t* put_row(uint8_t* at, Rows* rows, Py_ssize_t row) except NULL:
    cdef int64_t delta = rows.timestamps[row] - rows.base_timestamp if rows.timestamps != NULL else 0
    at = put_varint(at, <uint64_t>row_size(rows, row) << 1)
    at[0] = 0
    at = put_varint(at + 1, zigzag(delta))
    at = put_varint(at, <uint64_t>row << 1)
    at = put_field(at, rows.keys[row] if rows.keys != NULL else NONE)
    at = put_field(at, rows.values[row])
    if rows.headers != NULL:
        return put_headers(at, rows.headers[row])
    at[0] = 0
    return at + 1


# The size of the whole batch; every timestamp delta and every sum is known to be in range after it.
cdef int64_t batch_size(Rows* rows) except -1:
    cdef int64_t total = HEADER_SIZE
    cdef int64_t size
    cdef Py_ssize_t row
    for row in range(rows.count):
        if rows.timestamps != NULL and difference_overflows(rows.timestamps[row], rows.base_timestamp):
            raise faults.wrong_timestamp(rows.timestamps[row], row)
        size = row_size(rows, row)
        total += varint_size(<uint64_t>size << 1) + size
        if total - LOG_OVERHEAD > INT32_MAX:
            raise faults.batch_overflow()
    return total


cdef bytes write_rows(Rows* rows):
    cdef int64_t size = batch_size(rows)
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(batch) + HEADER_SIZE
    for row in range(rows.count):
        at = put_row(at, rows, row)
    assert at == <uint8_t*>PyBytes_AS_STRING(batch) + size
    return batch


cdef int64_t latest(Rows* rows) noexcept:
    cdef int64_t found = rows.base_timestamp
    if rows.timestamps != NULL:
        for row in range(rows.count):
            found = max(found, rows.timestamps[row])
    return found


cdef bytes encode(Fields* fields, tuple values, tuple keys, timestamp_ms, list timestamps, tuple headers):
    cdef Rows rows
    if not values:
        raise faults.empty_batch()
    cdef array.array column = int64_column([timestamp_ms] if timestamps is None else timestamps)
    keys = plain_fields("key", keys)
    values = plain_fields("value", values)
    headers = plain_headers(headers)
    rows.count = len(values)
    rows.base_timestamp = column.data.as_longlongs[0]
    rows.timestamps = NULL if timestamps is None else <int64_t*>column.data.as_longlongs
    rows.keys = NULL if keys is None else PySequence_Fast_ITEMS(<PyObject*>keys)
    rows.values = PySequence_Fast_ITEMS(<PyObject*>values)
    rows.headers = NULL if headers is None else PySequence_Fast_ITEMS(<PyObject*>headers)
    return seal(fields, &rows, write_rows(&rows))


# Compress the body if that helps, then write the header, last of all the CRC.
cdef bytes seal(Fields* fields, Rows* rows, bytes batch):
    cdef bytes compressed
    cdef uint32_t attributes = fields.flags
    cdef uint8_t* at
    if fields.compression != 0:
        compressed = compress(COMPRESSIONS[fields.compression], memoryview(batch)[HEADER_SIZE:])
        if len(compressed) < len(batch) - HEADER_SIZE:
            attributes |= <uint32_t>fields.compression
            batch = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + len(compressed))
            at = <uint8_t*>PyBytes_AS_STRING(batch) + HEADER_SIZE
            memcpy(at, PyBytes_AS_STRING(compressed), len(compressed))
    at = <uint8_t*>PyBytes_AS_STRING(batch)
    store64(at, <uint64_t>fields.base_offset)
    store32(at + BATCH_LENGTH_AT, <uint32_t>(len(batch) - LOG_OVERHEAD))
    store32(at + LEADER_EPOCH_AT, <uint32_t>fields.leader_epoch)
    at[MAGIC_AT] = 2
    store16(at + ATTRIBUTES_AT, attributes)
    store32(at + LAST_OFFSET_DELTA_AT, <uint32_t>(rows.count - 1))
    store64(at + BASE_TIMESTAMP_AT, <uint64_t>rows.base_timestamp)
    store64(at + MAX_TIMESTAMP_AT, <uint64_t>(fields.append_timestamp if fields.timestamp_type else latest(rows)))
    store64(at + PRODUCER_ID_AT, <uint64_t>fields.producer_id)
    store16(at + PRODUCER_EPOCH_AT, <uint32_t>fields.producer_epoch)
    store32(at + BASE_SEQUENCE_AT, <uint32_t>fields.base_sequence)
    store32(at + RECORD_COUNT_AT, <uint32_t>rows.count)
    store32(at + CRC_AT, checksum(at + ATTRIBUTES_AT, len(batch) - ATTRIBUTES_AT))
    return batch
