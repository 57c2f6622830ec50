# Records on their way into a batch, as columns: what they take, where they go, and how they are put in.

from cpython.bytes cimport PyBytes_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE

cdef enum:
    # lengths, deltas and attributes of a record or a header, about
    RECORD_OVERHEAD = 16

cdef object NOTHING = ()


# A field, of any type that has a length: subclasses of bytes are taken as well.
cdef inline Py_ssize_t length_of(PyObject* field) except -1:
    if field == NONE:
        return 0
    if PyBytes_CheckExact(<object>field):
        return PyBytes_SizeOf(field)
    return len(<object>field)


cdef Py_ssize_t headers_take(object headers) except -1:
    cdef Py_ssize_t size = 0
    for name, content in headers:
        size += RECORD_OVERHEAD + 4 * len(name) + (0 if content is None else len(content))
    return size


def record_bytes(value, key, headers):
    """What a record takes in a batch, about, and never less."""
    cdef Py_ssize_t size = RECORD_OVERHEAD + length_of(<PyObject*>value) + length_of(<PyObject*>key)
    if headers:
        size += headers_take(headers)
    return size


# By item and not by pointer: what has a length of its own may run code, and change the lists.
def record_ends(list values not None, list keys, list headers):
    """``[i]``: the `record_bytes` of records 0 to i together."""
    check_lengths(len(values), 0, None, keys, headers)
    cdef Py_ssize_t count = len(values)
    cdef array.array ends = array.clone(INT64S, count, False)
    cdef int64_t total = 0
    cdef Py_ssize_t row
    for row in range(count):
        total += RECORD_OVERHEAD + length_at(values, row)
        if keys is not None:
            total += length_at(keys, row)
        if headers is not None:
            pairs = item_at(headers, row)
            if pairs:
                total += headers_take(pairs)
        ends.data.as_longlongs[row] = total
    return ends


cdef inline object item_at(list column, Py_ssize_t row):
    if not 0 <= row < PyList_GET_SIZE(column):
        raise faults.no_such_rows(row, row + 1, len(column))
    return <object>PyList_GET_ITEM(column, row)


cdef inline Py_ssize_t length_at(list column, Py_ssize_t row) except -1:
    field = item_at(column, row)
    return length_of(<PyObject*>field)


def are_plain_fields(list column not None):
    """Whether every one is bytes, and of no derived class, or None: then nothing has to be converted."""
    cdef Py_ssize_t row
    cdef PyObject* field
    for row in range(PyList_GET_SIZE(column)):
        field = <PyObject*>PyList_GET_ITEM(column, row)
        if field != NONE and not PyBytes_CheckExact(<object>field):
            return False
    return True


def rows_by_partition(list keys not None, partition_count):
    """The rows of each partition that the keys choose, in order; -1 for those whose key is None."""
    cdef dict rows = {}
    cdef list own
    cdef Py_ssize_t row
    cdef object partition
    cdef list partitions = partitions_for_keys(keys, partition_count)
    for row in range(len(partitions)):
        partition = <object>PyList_GET_ITEM(partitions, row)
        own = <list>rows.get(partition)
        if own is None:
            own = rows[partition] = []
        own.append(row)
    return rows


def picked(list column not None, list rows not None):
    """The items of these rows, which are counted from 0. Raises IndexError."""
    cdef Py_ssize_t count = len(rows)
    cdef list found = [None] * count
    cdef Py_ssize_t place
    cdef Py_ssize_t row
    for place in range(count):
        row = item_at(rows, place)
        found[place] = item_at(column, row)
    return found


@cython.final
cdef class ColumnBuilder:
    """The records of a batch that is being filled, by one thread at a time: that is its owner's business."""

    cdef public list values
    cdef public list keys
    cdef public list headers
    cdef public list timestamps
    cdef public Py_ssize_t bytes
    cdef public Py_ssize_t bytes_max

    def __cinit__(self):
        self.values = []
        self.timestamps = []

    def append(self, value, key, headers, timestamp_ms):
        """Its place among the records of the batch."""
        return self.put(value, key, headers, timestamp_ms)

    cdef Py_ssize_t put(self, value, key, headers, timestamp_ms) except -1:
        cdef Py_ssize_t place = len(self.timestamps)
        self.timestamps.append(timestamp_ms)
        self.values.append(value)
        if self.keys is not None:
            self.keys.append(key)
        elif key is not None:
            self.keys = [None] * place
            self.keys.append(key)
        if self.headers is not None:
            self.headers.append(headers or NOTHING)
        elif headers:
            self.headers = [NOTHING] * place
            self.headers.append(headers)
        return place

    def extend(
        self, list values not None, list keys, list headers, timestamp_ms, Py_ssize_t start, Py_ssize_t end
    ):
        """Rows from ``start`` to ``end``, exclusive; the place of the first. Raises IndexError."""
        for column in (values, keys, headers):
            if column is not None and not 0 <= start <= end <= len(column):
                raise faults.no_such_rows(start, end, len(column))
        cdef Py_ssize_t place = len(self.timestamps)
        cdef Py_ssize_t count = end - start
        self.timestamps += [timestamp_ms] * count
        self.values += values[start:end]
        if keys is not None or self.keys is not None:
            if self.keys is None:
                self.keys = [None] * place
            self.keys += [None] * count if keys is None else keys[start:end]
        if headers is not None or self.headers is not None:
            if self.headers is None:
                self.headers = [NOTHING] * place
            self.headers += [NOTHING] * count if headers is None else headers[start:end]
        return place

    def drop_fields(self):
        """Only when each record was made stays known: the rest is encoded by now, or of no use any more."""
        self.values, self.keys, self.headers = [], None, None


cdef class Budget:
    """Bytes that may be used at once, and who waits for some."""

    cdef public Py_ssize_t used
    cdef public Py_ssize_t bytes_max
    cdef public object waiting


@cython.final
cdef class Intake:
    """The batch that takes records of a value alone, of one topic."""

    cdef public Py_ssize_t bytes_left
    cdef public object batch
    cdef public ColumnBuilder columns
    cdef Budget budget
    cdef object acquire
    cdef object release

    def __init__(self, Budget budget not None, lock):
        self.bytes_left = -1
        self.budget = budget
        self.acquire = lock.acquire
        self.release = lock.release

    # An interrupt comes between two steps of the interpreter, and here is none: the lock is never left held.
    def place(self, bytes value not None, timestamp_ms, made):
        """``made(batch, its place in it)``; None: it does not fit, and nothing was done."""
        cdef Py_ssize_t size = RECORD_OVERHEAD + len(value)
        cdef Py_ssize_t index
        cdef ColumnBuilder columns
        cdef Budget budget = self.budget
        self.acquire()
        try:
            columns = self.columns
            if (
                columns is None
                or size > self.bytes_left
                or columns.bytes + size > columns.bytes_max
                or budget.used + size > budget.bytes_max
                or budget.waiting
            ):
                return None
            index = columns.put(value, None, None, timestamp_ms)
            self.bytes_left -= size
            columns.bytes += size
            budget.used += size
            batch = self.batch
        finally:
            self.release()
        return made(batch, index)
