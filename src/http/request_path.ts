import { HubError } from "../core/error.ts";

/** The two halves of a request target. */
export interface RequestPath {
  /** Still percent-encoded, so that an encoded slash stays inside its segment. */
  path: string;
  /** Without the question mark; "" when there is none. */
  search: string;
}

const MAX_TARGET = 8192;
/** RFC 3986, 3.3: `pchar` and slash. */
const PATH = /^\/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$/;
/** A dot segment, its dots and slashes plain or decoded; a backslash counts as a slash, as it does in browsers. */
const DOT_SEGMENT = /(?:^|[/\\])\.{1,2}(?:[/\\]|$)/;
const FORBIDDEN = /[^\u0020-\u007e\u0080-\uffff]|\\/;

/**
 * The only source of a request's path: routing, authentication and logs all read this, never a URL that was built
 * from the Host header. Throws `invalid_request` for every form that two readers could understand in two ways:
 * absolute form, fragment, empty and dot segments (also encoded), control characters, malformed escapes.
 */
export function parseTarget(target: string): RequestPath {
  const mark = target.indexOf("?");
  const path = mark === -1 ? target : target.slice(0, mark);
  const search = mark === -1 ? "" : target.slice(mark + 1);
  if (target.length > MAX_TARGET) {
    throw refuse(`it has ${target.length} characters, wanted at most ${MAX_TARGET}`);
  }
  if (!PATH.test(path) || target.includes("#")) {
    throw refuse("it is not a plain path that begins with a slash");
  }
  if (path.includes("//")) throw refuse("it has an empty segment");
  if (path.includes("%")) {
    const decoded = decode(path);
    if (FORBIDDEN.test(decoded)) throw refuse("it has a backslash or a control character");
    if (DOT_SEGMENT.test(decoded)) throw refuse("it has a dot segment");
  } else if (path.includes("/.") && DOT_SEGMENT.test(path)) throw refuse("it has a dot segment");
  return { path, search };
}

/** One segment or path with its escapes resolved; throws `invalid_request` when they are not UTF-8. */
export function decode(text: string): string {
  if (!text.includes("%")) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw refuse("its escapes are not UTF-8");
  }
}

function refuse(why: string): HubError {
  return new HubError("invalid_request", `The request path is refused: ${why}`);
}
