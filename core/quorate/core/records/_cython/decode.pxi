# A batch to records.

cdef extern from *:
    """
    /* A Record without the argument tuple that a call would need. It holds nothing that could refer
       back to it (integers, bytes, None, and a tuple of pairs of str and bytes), so the garbage
       collector need not visit it: a consumer may hold a million of them. */
    static inline PyObject *quorate_new_record(
        PyTypeObject *type, PyObject *offset, PyObject *timestamp, PyObject *key, PyObject *value,
        PyObject *headers)
    {
        PyObject *record = type->tp_alloc(type, 5);
        if (record == NULL) {
            return NULL;
        }
        Py_INCREF(offset);
        PyTuple_SET_ITEM(record, 0, offset);
        Py_INCREF(timestamp);
        PyTuple_SET_ITEM(record, 1, timestamp);
        Py_INCREF(key);
        PyTuple_SET_ITEM(record, 2, key);
        Py_INCREF(value);
        PyTuple_SET_ITEM(record, 3, value);
        Py_INCREF(headers);
        PyTuple_SET_ITEM(record, 4, headers);
        PyObject_GC_UnTrack(record);
        return record;
    }

    static inline PyObject *quorate_new_consumer_record(
        PyTypeObject *type, PyObject *topic, PyObject *partition, PyObject *offset, PyObject *timestamp,
        PyObject *key, PyObject *value, PyObject *headers, PyObject *leader_epoch)
    {
        PyObject *fields[8] = {topic, partition, offset, timestamp, key, value, headers, leader_epoch};
        PyObject *record = type->tp_alloc(type, 8);
        if (record == NULL) {
            return NULL;
        }
        for (int index = 0; index < 8; index++) {
            Py_INCREF(fields[index]);
            PyTuple_SET_ITEM(record, index, fields[index]);
        }
        PyObject_GC_UnTrack(record);
        return record;
    }
    """
    ctypedef struct PyTypeObject:
        pass
    object new_record "quorate_new_record" (PyTypeObject*, object, object, object, object, object)
    object new_consumer_record "quorate_new_consumer_record" (
        PyTypeObject*, object, object, object, object, object, object, object, object
    )

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)
    bint PyUnicode_IS_ASCII(PyObject*)
    void PyObject_GC_UnTrack(object)

cdef PyTypeObject* RECORD = <PyTypeObject*>Record
cdef PyTypeObject* CONSUMER_RECORD = <PyTypeObject*>ConsumerRecord
cdef tuple NO_HEADERS = ()


# A nullable field in place; the size is -1 for null.
cdef struct Slice:
    const uint8_t* at
    Py_ssize_t size


# A record in place. What is left of `headers` after the count are the headers.
cdef struct RawRecord:
    int64_t timestamp
    int32_t offset_delta
    int32_t header_count
    Slice key
    Slice value
    Cursor headers


cdef inline int read_field(Cursor* cursor, Slice* field) noexcept nogil:
    cdef int32_t length = 0
    cdef int fault = read_varint(cursor, &length)
    if fault != GOOD:
        return fault
    field.at = cursor.at
    field.size = length
    if length < 0:
        return GOOD if length == -1 else BAD_FIELD_LENGTH
    if length > cursor.end - cursor.at:
        return BAD_TRUNCATED
    cursor.at += length
    return GOOD


# The next record, all but its headers; `payload` is left at its end.
cdef inline int read_record(Cursor* payload, int64_t base_timestamp, RawRecord* record) noexcept nogil:
    cdef int32_t length = 0
    cdef int64_t timestamp_delta = 0
    cdef Cursor cursor
    cdef int fault = read_varint(payload, &length)
    if fault != GOOD:
        return BAD_LENGTH if fault == BAD_TRUNCATED else fault
    if length < 0 or length > payload.end - payload.at:
        return BAD_LENGTH
    if length == 0:
        return BAD_TRUNCATED
    cursor.at = payload.at + 1  # after the attributes, which nothing uses
    cursor.end = payload.at + length
    payload.at += length
    fault = read_varlong(&cursor, &timestamp_delta)
    if fault == GOOD:
        fault = read_varint(&cursor, &record.offset_delta)
    if fault != GOOD:
        return fault
    if sum_overflows(base_timestamp, timestamp_delta):
        return BAD_TIMESTAMP
    record.timestamp = base_timestamp + timestamp_delta
    fault = read_field(&cursor, &record.key)
    if fault == GOOD:
        fault = read_field(&cursor, &record.value)
    if fault == GOOD:
        fault = read_varint(&cursor, &record.header_count)
    if fault != GOOD:
        return fault
    record.headers = cursor
    if record.header_count < 0 or record.header_count > (cursor.end - cursor.at) // 2:
        return BAD_HEADER_COUNT
    return GOOD if record.header_count > 0 or cursor.at == cursor.end else BAD_TRAILING


cdef inline object as_bytes(Slice* field):
    if field.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char*>field.at, field.size)


# One header; its key is there, though it may not be UTF-8.
cdef inline int read_header(Cursor* cursor, Slice* key, Slice* value) noexcept nogil:
    cdef int fault = read_field(cursor, key)
    if fault == GOOD:
        fault = read_field(cursor, value)
    if fault == GOOD and key.size < 0:
        fault = BAD_HEADER_KEY
    return fault


# The key as text. Headers of neighbours mostly have the same keys: then it is the neighbour's object.
cdef inline object header_key(Slice* key, tuple neighbour, Py_ssize_t index):
    cdef PyObject* text
    cdef Py_ssize_t size
    if index < PyTuple_GET_SIZE(neighbour):
        text = PyTuple_GetItemPointer(<PyObject*>PyTuple_GET_ITEM(neighbour, index), 0)
        # Of ASCII text, and only of that, the UTF-8 is there without being made.
        if PyUnicode_IS_ASCII(text):
            utf8 = PyUnicode_AsUTF8AndSize(text, &size)
            if size == key.size and memcmp(utf8, key.at, size) == 0:
                return <object>text
    return PyUnicode_DecodeUTF8(<const char*>key.at, key.size, NULL)


# The headers of a record as tuples, `neighbour` being those of another. On a fault the result is None.
cdef tuple read_headers(RawRecord* record, tuple neighbour, int* fault):
    cdef Slice key
    cdef Slice value
    cdef Py_ssize_t index
    cdef tuple headers = PyTuple_New(record.header_count)
    try:
        for index in range(record.header_count):
            fault[0] = read_header(&record.headers, &key, &value)
            if fault[0] != GOOD:
                return None
            header = (header_key(&key, neighbour, index), as_bytes(&value))
            PyObject_GC_UnTrack(header)
            Py_INCREF(header)
            PyTuple_SET_ITEM(headers, index, header)
    except UnicodeDecodeError:
        fault[0] = BAD_HEADER_KEY
        return None
    PyObject_GC_UnTrack(headers)
    if record.headers.at != record.headers.end:
        fault[0] = BAD_TRAILING
        return None
    return headers


# The body of a batch that was checked, decompressed: a buffer to read from and to release.
cdef int open_body(BatchHeader header, Py_buffer* batch, Py_ssize_t position, bytes_max, Py_buffer* payload) except -1:
    cdef char* body = <char*>batch.buf + position + HEADER_SIZE
    cdef Py_ssize_t size = size_of(header) - HEADER_SIZE
    cdef int compression = header.attributes & COMPRESSION_BITS
    unpacked = PyMemoryView_FromMemory(body, size, PyBUF_READ)
    # A batch that compaction emptied has no body, whatever its attributes say.
    if compression != 0 and size > 0:
        unpacked = decompress(COMPRESSIONS[compression], unpacked, bytes_max=bytes_max)
    PyObject_GetBuffer(unpacked, payload, PyBUF_SIMPLE)
    if <int64_t>header.record_count * RECORD_SIZE_MIN > payload.len:
        size = payload.len
        PyBuffer_Release(payload)
        raise faults.impossible_count(header.record_count, size, header.base_offset)
    return 0


def decode_batch(buffer, Py_ssize_t position=0, *, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX_DEFAULT):
    """All records of the batch at `position`, after every check there is.

    Bytes after the batch are not looked at. Raises CorruptBatch, UnsupportedBatch or BatchTooLarge.
    """
    return read_batch(buffer, position, decompressed_bytes_max, None, 0, 0)


def decode_consumer_records(
    buffer, Py_ssize_t position=0, *, str topic not None, int32_t partition, int64_t from_offset=0,
    decompressed_bytes_max=DECOMPRESSED_BYTES_MAX_DEFAULT,
):
    """Like `decode_batch`, as a consumer wants its records; those before `from_offset` are left out."""
    return read_batch(buffer, position, decompressed_bytes_max, topic, partition, from_offset)


# Without a topic: every record as a `Record`. With one: `ConsumerRecord`s, from `from_offset` on.
cdef list read_batch(
    buffer, Py_ssize_t position, decompressed_bytes_max, str topic, int32_t partition, int64_t from_offset
):
    cdef Py_buffer batch
    cdef Py_buffer payload
    cdef BatchHeader header
    PyObject_GetBuffer(buffer, &batch, PyBUF_SIMPLE)
    try:
        header = checked_header(buffer, &batch, position)
        open_body(header, &batch, position, decompressed_bytes_max, &payload)
        try:
            return read_records(header, &payload, topic, partition, from_offset)
        finally:
            PyBuffer_Release(&payload)
    finally:
        PyBuffer_Release(&batch)


cdef list read_records(
    BatchHeader header, Py_buffer* payload, str topic, object partition, int64_t from_offset
):
    cdef Cursor cursor = Cursor(<const uint8_t*>payload.buf, <const uint8_t*>payload.buf + payload.len)
    cdef RawRecord raw
    cdef int32_t last_delta = -1
    cdef int fault
    cdef int64_t offset
    cdef list records = []
    cdef tuple headers = NO_HEADERS
    cdef tuple neighbour = NO_HEADERS
    cdef object leader_epoch = header.leader_epoch
    cdef bint append_time = (header.attributes & APPEND_TIME_BIT) != 0
    # Neighbours often share a timestamp: one object then serves them all.
    cdef int64_t shared = header.max_timestamp
    cdef object timestamp = shared
    for index in range(header.record_count):
        fault = read_record(&cursor, header.base_timestamp, &raw)
        if fault == GOOD:
            headers = NO_HEADERS
            if raw.header_count:
                headers = neighbour = read_headers(&raw, neighbour, &fault)
        if fault == GOOD and not last_delta < raw.offset_delta <= header.last_offset_delta:
            fault = BAD_OFFSET
        if fault != GOOD:
            raise faults.record_error(fault, index, header.base_offset)
        last_delta = raw.offset_delta
        offset = header.base_offset + raw.offset_delta
        if raw.timestamp != shared and not append_time:
            shared = raw.timestamp
            timestamp = shared
        if topic is None:
            records.append(new_record(
                RECORD, offset, timestamp, as_bytes(&raw.key), as_bytes(&raw.value), headers,
            ))
        elif offset >= from_offset:
            records.append(new_consumer_record(
                CONSUMER_RECORD, topic, partition, offset, timestamp, as_bytes(&raw.key), as_bytes(&raw.value),
                headers, leader_epoch,
            ))
    if cursor.at != cursor.end:
        raise faults.trailing_bytes(cursor.end - cursor.at, header.base_offset)
    return records
