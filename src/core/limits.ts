/** Largest request body, in bytes. Read once, replayed to each attempt. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Largest body that is sent on while it comes, in bytes: what OpenAI takes for a file. */
export const MAX_UPLOAD_BYTES = 512 * 1024 * 1024;
/** Longest name of a model, in characters; `provider/` may stand before it. */
export const MAX_MODEL_NAME_LENGTH = 200;
/** Longest name of a provider. */
export const MAX_PROVIDER_NAME_LENGTH = 32;
/** Names that clients choose and the hub remembers something about, in each place. */
export const MAX_KNOWN_NAMES = 1000;
/** Deepest nesting of a JSON request body. */
export const MAX_JSON_DEPTH = 64;
/** Most object keys in one JSON request body. */
export const MAX_JSON_KEYS = 200_000;
/** Largest single SSE event accepted from an upstream, in bytes. */
export const MAX_SSE_EVENT_BYTES = 8 * 1024 * 1024;
/** Most bytes of a stream that are held back while its first content has not come. */
export const MAX_HELD_BYTES = 1024 * 1024;
/** Largest non-streamed answer of an upstream, in bytes. */
export const MAX_RESPONSE_BYTES = 64 * 1024 * 1024;
/** Largest tool result the model reads, in UTF-8 bytes and lines; the full text is kept as a blob. */
export const MAX_TOOL_RESULT_BYTES = 50 * 1024;
export const MAX_TOOL_RESULT_LINES = 2000;
/** A slow subscriber's queue; when more comes at either bound its response is errored and it resumes from its cursor. */
export const MAX_SUBSCRIBER_EVENTS = 512;
export const MAX_SUBSCRIBER_BYTES = 1024 * 1024;
/** Model calls of one run when the agent sets nothing else. */
export const DEFAULT_MAX_STEPS = 10;
/** Tools of one step that run at the same time. */
export const MAX_PARALLEL_TOOLS = 8;
/** Tools of an agent above which its model is shown some of them only. */
export const MAX_OFFERED_TOOLS = 40;
/** Time a stopped tool gets to end by itself, in milliseconds. */
export const ABORT_GRACE_MS = 2000;
/** A tool call that sets no deadline of its own, in milliseconds. */
export const DEFAULT_TOOL_TIMEOUT_MS = 60_000;
