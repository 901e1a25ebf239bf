import { canonicalBase64 } from "../core/base64.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";

/** An argument that is sent as a header too. */
interface Mirrored {
  path: readonly string[];
  header: string;
  isInteger: boolean;
}

const KEYWORD = "x-mcp-header";
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const TYPES: ReadonlySet<Json | undefined> = new Set(["string", "integer", "boolean"]);
/** Keywords under which nothing is a schema. */
const DATA: ReadonlySet<string> = new Set(["const", "default", "enum", "example", "examples"]);
const SPECIMEN = /^=\?base64\?.*\?=$/s;
const OPENING = "=?base64?";
const CLOSING = "?=";
const DECIMAL = /^-?\d+(\.\d+)?$/;
const PLAIN = /^[\t\x20-\x7e]+$/;

/**
 * What a call has to send as `Mcp-Param-*` since revision 2026-07-28, by its tool's schema: single values that it names
 * by `x-mcp-header`.
 */
export function paramHeaders(schema: JsonObject, input: JsonObject): Record<string, string> {
  const { mirrored } = readMirrored(schema);
  const headers: Record<string, string> = {};
  for (const { path, header } of mirrored) {
    const text = toText(path.reduce<Json | undefined>(memberOf, input));
    if (text !== null) headers[`Mcp-Param-${header}`] = encode(text);
  }
  return headers;
}

/**
 * In what the headers that came with a call are not what its arguments say, by its tool's schema; null when they are. A
 * value that is not there wants no header.
 */
export function findHeaderMismatch(
  schema: JsonObject,
  input: JsonObject,
  headerOf: (name: string) => string | null,
): string | null {
  for (const { path, header, isInteger } of readMirrored(schema).mirrored) {
    const value = path.reduce<Json | undefined>(memberOf, input);
    const text = toText(value);
    if (text === null) continue;
    const name = `Mcp-Param-${header}`;
    const came = headerOf(name);
    if (came === null) return `${name} is missing, and the body has ${path.join(".")}`;
    const said = decode(came);
    if (said === null) return `${name} is no base64 of UTF-8`;
    const isSame = isInteger && DECIMAL.test(said) ? Number(said) === value : said === text;
    if (!isSame) return `${name} says something else than ${path.join(".")} of the body`;
  }
  return null;
}

/** Why a tool's headers cannot be sent, for which it must not be called over HTTP; null when they can. */
export function findHeaderFault(schema: JsonObject): string | null {
  return readMirrored(schema).fault;
}

function readMirrored(schema: JsonObject): { mirrored: Mirrored[]; fault: string | null } {
  const mirrored: Mirrored[] = [];
  const taken = new Set<string>();
  /** A null path leads somewhere that no argument stands for certain. */
  const waiting: { node: Json; path: readonly string[] | null; isSchema: boolean }[] = [
    { node: schema, path: [], isSchema: true },
  ];
  const fault = (reason: string) => ({ mirrored: [], fault: `its ${KEYWORD} ${reason}` });
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { node, path, isSchema } = next;
    if (typeof node !== "object" || node === null) continue;
    if (isSchema && isJsonObject(node) && Object.hasOwn(node, KEYWORD)) {
      const header = node[KEYWORD];
      if (path === null || path.length === 0) return fault("stands where no single argument is");
      if (typeof header !== "string" || !TOKEN.test(header)) return fault("is no name of a header");
      if (!TYPES.has(node["type"])) return fault(`${header} is for no text, integer or boolean`);
      if (taken.has(header.toLowerCase())) return fault(`${header} is there twice`);
      taken.add(header.toLowerCase());
      mirrored.push({ path, header, isInteger: node["type"] === "integer" });
    }
    for (const [keyword, child] of Object.entries(node)) {
      if (!isSchema) {
        waiting.push({ node: child, path: path && [...path, keyword], isSchema: true });
      } else if (keyword === "properties") waiting.push({ node: child, path, isSchema: false });
      else if (!DATA.has(keyword)) waiting.push({ node: child, path: null, isSchema: true });
    }
  }
  return { mirrored, fault: null };
}

function memberOf(value: Json | undefined, name: string): Json | undefined {
  return isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

function toText(value: Json | undefined): string | null {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  return typeof value === "number" && Number.isSafeInteger(value) ? String(value) : null;
}

/** A header takes a line of ASCII without space at its ends; anything else goes as base64, and what looks like that too. */
function encode(text: string): string {
  if (PLAIN.test(text) && text === text.trim() && !SPECIMEN.test(text)) return text;
  return OPENING + new TextEncoder().encode(text).toBase64() + CLOSING;
}

/** A header's value with its base64, if it has some, written canonically; null for what looks like base64 and is none. */
export function canonicalHeader(came: string): string | null {
  if (!SPECIMEN.test(came)) return came;
  const text = canonicalBase64(came.slice(OPENING.length, -CLOSING.length));
  return text === null ? null : OPENING + text + CLOSING;
}

/** Null for what looks like base64 and is none. */
function decode(came: string): string | null {
  if (!SPECIMEN.test(came)) return came;
  const text = canonicalBase64(came.slice(OPENING.length, -CLOSING.length));
  if (text === null) return null;
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.fromBase64(text));
  } catch {
    return null;
  }
}
