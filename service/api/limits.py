"""Every limit of the wire in one table. The OpenAPI document and the messages of refusals read them from here.

The body's own limits (bytes, depth) are settings: `max_body_bytes`, `max_json_depth`.
"""

from service.domain import spans

# JavaScript reads integers exactly up to here, and both databases store them.
MAX_EXACT_INTEGER = spans.MAX_EXACT_INTEGER

NAME_CHARACTERS = 200
COMMAND_CHARACTERS = 65_536
COMMAND_WORDS = 1000
KEPT_COMMAND_CHARACTERS = 8192
NUMERAL_CHARACTERS = 40
LIST_ENTRIES = 64
GRAPH_SIZES = spans.GRAPH_SIZES
CURVE_ROWS = 1024

# What a refusal repeats of what it refuses.
FAULTS_LISTED = 50
FAULTS_BYTES = 14_000
POINTER_CHARACTERS = 64
# The longest sentence lists the model types of all readers.
DETAIL_CHARACTERS = 4000

Span = spans.Span
SPANS = spans.SPANS

# Bodies that hold the headers of a checkpoint's files, and how many files it may have.
IMPORT_BYTES = 16 * 2**20
HEADERS = 1024

# Pages of a list.
PAGE_ENTRIES = 50
MOST_PAGE_ENTRIES = 500
CURSOR_CHARACTERS = 400

# What filters of a list may be compared with.
FILTER_SPANS: dict[str, Span] = {
    "parameters": Span(0, MAX_EXACT_INTEGER),
    "bytes": Span(0, MAX_EXACT_INTEGER),
    "rate": Span(0, 1e21),
    "tokens": Span(0, spans.MOST_TOKENS),
    "count": Span(0, spans.MOST_GPUS),
    "year": Span(0, 9999),
    "usd_per_hour": Span(0, 1e6),
}

# Uploads of measurements; the body's limit is for what it unpacks to.
UPLOAD_ROWS = 1000
UPLOAD_BYTES = 10 << 20
ROW_BYTES = 64 << 10
BAD_ROWS_LISTED = 50
ROW_FAULTS = 3
ROW_TEXT_CHARACTERS = 120

# A start-up log; the limit is for what it unpacks to.
LOG_BYTES = 10 << 20
