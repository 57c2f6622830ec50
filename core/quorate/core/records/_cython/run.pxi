# Runs of batches, for the recovery scan: a log of small batches has millions of them.

def scan_run(
    buffer, Py_ssize_t position, *, int64_t next_offset, int64_t end_offset, int32_t leader_epoch,
    int64_t max_timestamp, Py_ssize_t mark_from, Py_ssize_t mark_every,
):
    """Whole, valid batches that follow each other in one leader epoch; see `BatchRun`."""
    cdef Py_buffer view
    cdef BatchHeader header
    cdef int64_t record_count = 0, batch_count = 0
    cdef list marks = [], producer_headers = []
    if position < 0:
        raise ValueError(f"position is {position}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        while position < view.len and next_offset < end_offset:
            header = try_header(&view, position)
            if header is None or size_of(header) > view.len - position:
                break
            if header.base_offset != next_offset or header.leader_epoch != leader_epoch:
                break
            if not crc_is_good(&view, position, header):
                break
            next_offset += <int64_t>header.last_offset_delta + 1
            max_timestamp = max(max_timestamp, header.max_timestamp)
            if position >= mark_from:
                marks.append((position, next_offset - 1, max_timestamp))
                mark_from = position + mark_every
            if header.producer_id >= 0:
                producer_headers.append(header)
            record_count += header.record_count
            batch_count += 1
            position += size_of(header)
    finally:
        PyBuffer_Release(&view)
    return BatchRun(position, next_offset, max_timestamp, batch_count, record_count, marks, producer_headers)
