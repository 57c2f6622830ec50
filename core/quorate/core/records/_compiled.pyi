# The compiled codec has the interface of the pure one; a test compares the signatures themselves.
from quorate.core.records._pure import BatchHeader as BatchHeader
from quorate.core.records._pure import BatchRun as BatchRun
from quorate.core.records._pure import ScanResult as ScanResult
from quorate.core.records._pure import check_batch as check_batch
from quorate.core.records._pure import decode_batch as decode_batch
from quorate.core.records._pure import decode_columns as decode_columns
from quorate.core.records._pure import decode_consumer_records as decode_consumer_records
from quorate.core.records._pure import encode_batch as encode_batch
from quorate.core.records._pure import encode_values as encode_values
from quorate.core.records._pure import murmur2 as murmur2
from quorate.core.records._pure import parse_header as parse_header
from quorate.core.records._pure import partitions_for_keys as partitions_for_keys
from quorate.core.records._pure import patch_header as patch_header
from quorate.core.records._pure import scan_batches as scan_batches
from quorate.core.records._pure import scan_run as scan_run
from quorate.core.records._pure import stamped_prefix as stamped_prefix
