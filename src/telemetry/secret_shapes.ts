/** A kind of credential that gives itself away by its form. */
export interface SecretShape {
  /** Cheap test whether looking closer is worth it. */
  hint: RegExp;
  /** Finds it; the first group, which may be empty, is kept. */
  pattern: RegExp;
}

/** Words at whose end a name stands for a credential; a hyphen may be an underscore or nothing. */
const WORDS = [
  "authorization",
  "api-key",
  "access-key",
  "secret-key",
  "private-key",
  "master-key",
  "password",
  "passwd",
  "passphrase",
  "secret",
  "token",
  "cookie",
  "credential",
  "credentials",
];

/** The words as a pattern that finds `api-key`, `apiKey` and `API_KEY` alike. */
const NAMES = WORDS.map((word) => word.replace("-", "[-_]?")).join("|");

/** Headers whose whole value is a credential. */
const HEADERS = "(?:proxy-)?authorization|x-api-key|api-key|(?:set-)?cookie";

/**
 * Where a word begins. In a line of JSON a word may follow `\n`, whose `n` is no part of it.
 */
const START = "(?:(?<![A-Za-z0-9])|(?<=\\\\[nrtbf]))";

/** A value without quotes: up to a space or a separator; pairs of backslashes are JSON's way to write one. */
const BARE = "(?:\\\\\\\\|[^\\s\"'\\\\&,;(){}\\[\\]<>])+";

const KEY_PREFIXES = [
  "sk-",
  "rk-",
  "sk_live_",
  "sk_test_",
  "csk-",
  "gsk_",
  "xai-",
  "lh_",
  "hub_live_",
  "hub_test_",
  "gh[opsu]_",
  "github_pat_",
  "glpat-",
  "hf_",
  "xox[abeprs]-",
  "AIza",
  "AKIA",
].join("|");

/** Credentials that are known by their form alone. */
export const SECRET_SHAPES: readonly SecretShape[] = [
  {
    hint: /[-_]|AIza|AKIA/,
    pattern: new RegExp(`(${START}(?:${KEY_PREFIXES}))[A-Za-z0-9_-]{12,}`, "g"),
  },
  {
    // JSON Web Tokens: header and payload are base64url of JSON objects (RFC 7519).
    hint: /eyJ/,
    pattern: new RegExp(
      `(${START}eyJ)[A-Za-z0-9_-]{8,}\\.[A-Za-z0-9_-]{8,}(?:\\.[A-Za-z0-9_-]*)?`,
      "g",
    ),
  },
  {
    // Words such as "Basic authentication" are let through.
    hint: /b(?:earer|asic)\s/i,
    pattern:
      /(b(?:earer|asic)\s{1,4})(?=[A-Za-z+/~]*[0-9=_.-]|[A-Za-z+/~]{16})[A-Za-z0-9._~+/=-]{8,}/gi,
  },
  {
    hint: /:\/\/[^\s/"\\]*@/,
    pattern: /([a-z][a-z0-9+.-]{1,20}:\/\/[^\s/:@"\\]{0,200}:)[^\s/"\\]{1,500}(?=@)/gi,
  },
];

/** Values that stand behind a name. */
export const NAMED_SECRETS: { hint: RegExp; patterns: readonly RegExp[] } = {
  // A name counts only where something that can hold a value follows.
  hint: new RegExp(`(?:${NAMES})\\s?["\\\\=:]`, "i"),
  patterns: [
    // A member of a JSON object, and of one inside a JSON text.
    new RegExp(`("[\\w.-]{0,40}(?:${NAMES})"\\s{0,4}:\\s{0,4}")(?:[^"\\\\]|\\\\.)*`, "gi"),
    new RegExp(
      `(\\\\"[\\w.-]{0,40}(?:${NAMES})\\\\"\\s{0,4}:\\s{0,4}\\\\")(?:[^"\\\\]|\\\\\\\\(?:\\\\["\\\\]|[^"\\\\]))*`,
      "gi",
    ),
    // A header as a pair, and as a line.
    new RegExp(`("(?:${HEADERS})"\\s{0,4},\\s{0,4}")(?:[^"\\\\]|\\\\.)*`, "gi"),
    new RegExp(`(${START}(?:${HEADERS})\\s?:\\s{0,4})[^"\\\\\\s][^"\\\\\\r\\n]*`, "gi"),
    new RegExp(`(${START}pass(?:word|wd|phrase)\\s?:\\s{1,4})(?!\\[redacted\\])${BARE}`, "gi"),
    // A parameter of a URL, a form, a connection string or a command line.
    new RegExp(
      `(${START}[\\w.-]{0,40}?(?:${NAMES})=)(?:'[^'\\\\"]*'|\\\\"[^"\\\\]*\\\\"|"[A-Za-z0-9._~+/=-]{4,}"|(?!\\[redacted\\])${BARE})`,
      "gi",
    ),
  ],
};

const ENDINGS: readonly string[] = WORDS.map((word) => word.replace("-", ""));

/** True for names of fields and headers whose value is a credential. `promptTokens` and its like are not. */
export function isSecretName(name: string): boolean {
  const lower = name.toLowerCase();
  const folded = /[-_]/.test(lower) ? lower.replaceAll(/[-_]/g, "") : lower;
  return ENDINGS.some((ending) => folded.endsWith(ending));
}
