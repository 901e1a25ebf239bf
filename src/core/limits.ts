/** Largest request body, in bytes. Read once, replayed to each attempt. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Largest body that is sent on while it comes, in bytes: what OpenAI takes for a file. */
export const MAX_UPLOAD_BYTES = 512 * 1024 * 1024;
/**
 * Requests with a key at the same time, of one process: two sockets each, and as much as four providers at their default
 * of 256 take.
 */
export const MAX_CONCURRENT_REQUESTS = 1000;
/** Requests of one key at the same time, of one process: a key alone fills neither the hub nor a provider. */
export const MAX_CONCURRENT_PER_KEY = 200;
/** Longest name of a model, in characters; `provider/` may stand before it. */
export const MAX_MODEL_NAME_LENGTH = 200;
/** Longest name of a provider. */
export const MAX_PROVIDER_NAME_LENGTH = 32;

/** Longest name of a model in a request: `provider/model`, in characters. */
export const MAX_MODEL_ASKED = MAX_PROVIDER_NAME_LENGTH + 1 + MAX_MODEL_NAME_LENGTH;
/** Names that clients choose and the hub remembers something about, in each place. */
export const MAX_KNOWN_NAMES = 1000;
/** Deepest nesting of a JSON request body. */
export const MAX_JSON_DEPTH = 64;
/** Most object keys in one JSON request body. */
export const MAX_JSON_KEYS = 200_000;
/** Most members of one object in a JSON request body: work on more of them cannot be divided. */
export const MAX_OBJECT_MEMBERS = 20_000;
/** Most values in one JSON request body: a request for embeddings may have 300,000 tokens. */
export const MAX_JSON_VALUES = 1_000_000;
/** Largest single SSE event accepted from an upstream, in bytes. */
export const MAX_SSE_EVENT_BYTES = 8 * 1024 * 1024;
/** Most bytes of a stream that are held back while its first content has not come. */
export const MAX_HELD_BYTES = 1024 * 1024;
/** Largest non-streamed answer of an upstream, in bytes. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** Largest tool result the model reads, in UTF-8 bytes and lines; the full text is kept as a blob. */
export const MAX_TOOL_RESULT_BYTES = 50 * 1024;
export const MAX_TOOL_RESULT_LINES = 2000;
/** Largest file that a model makes (a generated image), in bytes. */
export const MAX_MODEL_FILE_BYTES = 8 * 1024 * 1024;
/** Most files that the models of one run, or one proxied answer, make. */
export const MAX_MODEL_FILES = 32;
/** Most bytes of all these files together. */
export const MAX_ALL_MODEL_FILES_BYTES = 64 * 1024 * 1024;
/** A slow subscriber's queue; when more comes at either bound its response is errored and it resumes from its cursor. */
export const MAX_SUBSCRIBER_EVENTS = 512;
export const MAX_SUBSCRIBER_BYTES = 1024 * 1024;
/** Model calls of one run when the agent sets nothing else. */
export const DEFAULT_MAX_STEPS = 10;
/** Longest text of one message that an agent answers, in characters: more than models read. */
export const MAX_MESSAGE_TEXT = 4 * 1024 * 1024;
/** Most messages, or items of an input, in a request that is translated for its provider. */
export const MAX_CHAT_MESSAGES = 20_000;
/** Most tools in a request that is translated for its provider. */
export const MAX_CHAT_TOOLS = 2000;
/** Tool calls of one model answer that are taken; the others are answered as refused. */
export const MAX_CALLS_PER_ANSWER = 128;
/** Tool calls of one model answer that are read at all: an answer with more is malformed. */
export const MAX_READ_CALLS = 8192;
/** Longest arguments of a tool call that are taken, in characters: more than models write in an answer. */
export const MAX_CALL_INPUT_LENGTH = 1024 * 1024;
/** Longest arguments of all tool calls of one answer that are taken, in characters. */
export const MAX_ANSWER_INPUT_LENGTH = 2 * 1024 * 1024;
/** Longest answer of a model that an agent reads, in characters of text, reasoning and arguments. */
export const MAX_ANSWER_LENGTH = 16 * 1024 * 1024;
/** Tools of one step that run at the same time. */
export const MAX_PARALLEL_TOOLS = 8;
/** Tools of an agent above which its model is shown some of them only. */
export const MAX_OFFERED_TOOLS = 40;
/** Time a stopped tool gets to end by itself, in milliseconds. */
export const ABORT_GRACE_MS = 2000;
/** A tool call that sets no deadline of its own, in milliseconds. */
export const DEFAULT_TOOL_TIMEOUT_MS = 60_000;

// Bounds of what callers write. Schemas of the API show them; the service that all doors call holds them.

/** Longest id that a client gives: of a message, a text for a run, a chat, a session. */
export const MAX_CLIENT_ID_LENGTH = 200;
/** Longest title of a session. */
export const MAX_TITLE_LENGTH = 500;
/** Longest key of a session's metadata. */
export const MAX_METADATA_KEY_LENGTH = 100;
/** Most parts of one message of a user. */
export const MAX_MESSAGE_PARTS = 100;
/** Longest media type and file name of a message's file. */
export const MAX_MEDIA_TYPE_LENGTH = 200;
export const MAX_FILE_NAME_LENGTH = 1000;
/** Longest text that is said to a run which goes on. */
export const MAX_STEERING_LENGTH = 100_000;
/** Longest reason of an answer to an approval or a plan, which the model reads. */
export const MAX_REASON_LENGTH = 2000;
/** Longest time for which an approval is remembered, in seconds, if it ends at all. */
export const MAX_REMEMBER_SECONDS = 10 * 366 * 86_400;
/** Oldest answer of the response cache that may be asked for, in seconds. */
export const MAX_CACHE_SECONDS = 30 * 24 * 3600;
/** Longest key of a provider. */
export const MAX_PROVIDER_KEY_LENGTH = 10_000;
/** Largest bound of a run's budget. */
export const MAX_RUN_BUDGET = 1e15;
