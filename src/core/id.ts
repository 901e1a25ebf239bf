import { HubError } from "./error.ts";

/**
 * Prefixes of public ids: session, message, part, run, step, tool call, key, request, usage row, blob, text said to a run,
 * audit row, provider kept in the database, approval, grant of later approvals, question of
 * a tool.
 * Inside Postgres an id is the bare `uuid`; outside it is the prefix, an underscore and the 32 hex digits.
 */
export type IdPrefix =
  | "ses"
  | "msg"
  | "prt"
  | "run"
  | "stp"
  | "call"
  | "key"
  | "req"
  | "usg"
  | "blob"
  | "steer"
  | "aud"
  | "cli"
  | "apr"
  | "grt"
  | "qst";

/** A public id such as `ses_0197f2c4a8b07d3e9c1b2a3f4d5e6f70`. */
export type Id<P extends IdPrefix = IdPrefix> = `${P}_${string}`;

/** Makes ids; injected so that tests are deterministic. */
export interface IdSource {
  next<P extends IdPrefix>(prefix: P): Id<P>;
}

/** Makes UUIDv7 ids (RFC 9562, 6.2 method 1): ordered by time, and by a 12-bit counter within a millisecond. */
export function createIdSource(
  now: () => number,
  randomBytes: (length: number) => Uint8Array,
): IdSource {
  let lastMs = 0;
  let time = "";
  let counter = 0;
  const random = createWordSource(randomBytes);
  return {
    next(prefix) {
      const ms = now();
      if (ms > lastMs) {
        lastMs = ms;
        counter = 0;
        time = "";
      } else if (++counter > 0xfff) {
        lastMs++;
        counter = 0;
        time = "";
      }
      if (time === "") time = lastMs.toString(16).padStart(12, "0");
      const sequence = (0x7000 | counter).toString(16);
      const high = ((random() & 0x3fffffff) | 0x80000000) >>> 0;
      return `${prefix}_${time}${sequence}${high.toString(16)}${
        random().toString(16).padStart(8, "0")
      }`;
    },
  };
}

/** Random 32-bit numbers, drawn in bulk: a call for eight bytes costs as much as one for a thousand. */
function createWordSource(randomBytes: (length: number) => Uint8Array): () => number {
  let words: DataView = new DataView(new ArrayBuffer(0));
  let at = 0;
  return () => {
    if (at === words.byteLength) {
      const { buffer, byteOffset, byteLength } = randomBytes(1024);
      words = new DataView(buffer, byteOffset, byteLength);
      at = 0;
    }
    const word = words.getUint32(at);
    at += 4;
    return word;
  };
}

/** The `uuid` text that Postgres stores for a public id, dashes included. */
export function toUuid(id: Id): string {
  const hex = id.slice(id.indexOf("_") + 1);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${
    hex.slice(20)
  }`;
}

/** The public id of a stored `uuid`. */
export function fromUuid<P extends IdPrefix>(prefix: P, uuid: string): Id<P> {
  return `${prefix}_${uuid.replaceAll("-", "")}`;
}

/** True when `text` has the form of a public id with this prefix. */
export function isId<P extends IdPrefix>(prefix: P, text: string): text is Id<P> {
  return text.startsWith(`${prefix}_`) && /^[0-9a-f]{32}$/.test(text.slice(prefix.length + 1));
}

/** Parses an id that came from outside; throws `not_found`, since an id of another form names nothing. */
export function parseId<P extends IdPrefix>(prefix: P, text: string): Id<P> {
  if (isId(prefix, text)) return text;
  throw new HubError(
    "not_found",
    `No ${text.slice(0, 80)}: ids here look like ${prefix}_ and 32 hex digits`,
  );
}
