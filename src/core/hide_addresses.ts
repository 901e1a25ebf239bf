/** What stands where an address was. */
export const HIDDEN_ADDRESS = "[address]";

/** Ends of host names; those that are also usual names of JSON members or files are left out. */
const TOP_LEVELS =
  "com|net|org|io|ai|dev|app|cloud|co|local|localdomain|internal|intranet|lan|corp|home|svc|private|test|example|invalid|localhost|gov|edu|xyz";

/** Words that stand before a number with a colon, and are no host. */
const NO_HOSTS =
  "at|budget|code|column|completion|context|count|current|error|expected|got|id|index|input|length|limit|line|max|maximum|min|minimum|ms|offset|output|position|prompt|received|requested|row|seconds|size|status|timeout|tokens?|total|used|value|version";

/** In order: what an earlier one has replaced is not found by a later one. All are bounded, so that they stay linear. */
const ADDRESSES: readonly [hint: RegExp, pattern: RegExp, replacement: string][] = [
  // URLs, up to the punctuation that ends a sentence.
  [
    /:\/\//,
    /(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}:\/\/[^\s"'<>`(){}|\\^]{0,2000}[^\s"'<>`(){}|\\^.,;:!?\]]/gi,
    HIDDEN_ADDRESS,
  ],
  // host='10.0.0.1', port=8000, as Python's clients write it.
  [
    /host/i,
    /\bhost(?:name)?\s?=\s?['"]?[^\s'",)]{1,255}['"]?(?:,\s?port\s?=\s?\d{1,5})?/gi,
    HIDDEN_ADDRESS,
  ],
  // What the errors of Node, Go and Python name behind these words.
  [
    /E[A-Z]{4}|lookup|host|dial/,
    /\b((?:ENOTFOUND|ECONNREFUSED|ECONNRESET|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|dial (?:tcp|udp)[46]?:?(?: lookup)?|lookup|connect to host|resolve host:?)\s)(?:on\s)?[^\s,;()'"]*[^\s,;()'".:]/g,
    `$1${HIDDEN_ADDRESS}`,
  ],
  [
    /\d\.\d/,
    /(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)(?::\d{1,5}(?!\d)|\/\d{1,2}(?!\d))?/g,
    HIDDEN_ADDRESS,
  ],
  [
    /::|(?:[0-9a-f]{1,4}:){7}/i,
    /\[(?=[^\]]{0,45}:[^\]]{0,45}:)[0-9a-f:.]{2,45}(?:%\w{1,16})?\](?::\d{1,5})?|(?<![\w:.])(?:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)(?![\w:])/gi,
    HIDDEN_ADDRESS,
  ],
  // A name with a port: with dots, or one word as in a network of containers.
  [
    /:\d{2}/,
    /(?<![\w.@/-])(?:(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.){1,8}[a-z][a-z0-9-]{0,62}|localhost):\d{2,5}(?!\w)/gi,
    HIDDEN_ADDRESS,
  ],
  [
    /:\d{4}/,
    new RegExp(`(?<![\\w.@/-])(?!(?:${NO_HOSTS}):)[a-z][a-z0-9_-]{0,62}:\\d{4,5}(?!\\w)`, "g"),
    HIDDEN_ADDRESS,
  ],
  [
    new RegExp(`\\.(?:${TOP_LEVELS})(?![\\w-])`, "i"),
    new RegExp(
      `(?<![\\w@./-])(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\\.){1,8}(?:${TOP_LEVELS})(?:\\.[a-z]{2})?(?![\\w-]|\\.\\w)`,
      "gi",
    ),
    HIDDEN_ADDRESS,
  ],
  [/localhost/i, /(?<![\w.-])localhost(?![\w-])/gi, HIDDEN_ADDRESS],
  [/port/i, /\b(ports?[\s=:#]{1,3})\d{2,5}(?!\w)/gi, `$1${HIDDEN_ADDRESS}`],
];

/**
 * The text without URLs, host names, IP addresses and ports: for messages of failures whose reader must not learn where
 * the hub's upstreams are. Paths of JSON members (`messages.0.content`) and names of models stay.
 */
export function hideAddresses(text: string): string {
  let out = text;
  for (const [hint, pattern, replacement] of ADDRESSES) {
    if (hint.test(out)) out = out.replace(pattern, replacement);
  }
  return out;
}
