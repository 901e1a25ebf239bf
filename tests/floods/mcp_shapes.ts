import type { JsonObject } from "../../src/core/json.ts";
import { many, objectOf, TEXTS } from "./loop_shapes.ts";

const structured = (value: string) => `{"content":[],"structuredContent":{"a":${value}}}`;
const said = (text: string) => `{"content":[{"type":"text","text":${text}}]}`;
const nested = (levels: number) => `${"[".repeat(levels)}1${"]".repeat(levels)}`;
const textOf = (name: string, bytes: number) => said(TEXTS[name]?.(bytes) ?? "");

/** A result of a tool, and what the model reads of it. */
export interface HostileResult {
  tool: string;
  result: () => string;
  reads: RegExp;
}

/** Results that are the most work for their size, at the bounds of a message and past them. */
export const HOSTILE_RESULTS: readonly HostileResult[] = [
  // The message, its result, its structure: the list is the fourth level.
  { tool: "deep", result: () => structured(nested(253)), reads: /\[\[\[/ },
  { tool: "too_deep", result: () => structured(nested(254)), reads: /more than 256 levels deep/ },
  {
    tool: "three_million_levels",
    result: () => structured(nested(3_000_000)),
    reads: /more than 256 levels deep/,
  },
  {
    tool: "keys",
    result: () => structured(`[${many(10, () => objectOf(9999))}]`),
    reads: /"k1"/,
  },
  {
    tool: "too_many_keys",
    result: () => structured(`[${many(10, () => objectOf(10_000))}]`),
    reads: /more than 100000 keys/,
  },
  {
    tool: "values",
    result: () => structured(`[${many(290_000, () => "0")}]`),
    reads: /0,/,
  },
  {
    tool: "too_many_values",
    result: () => structured(`[${many(300_001, () => "0")}]`),
    reads: /more than 300000 values/,
  },
  {
    tool: "members",
    result: () => structured(objectOf(20_001)),
    reads: /more than 20000 members/,
  },
  ...["plain text", "lines", "escaped letters", "escaped quotes", "NUL"].map((name) => ({
    tool: name.replaceAll(" ", "_").toLowerCase(),
    result: () => textOf(name, 6_000_000),
    reads: /hub\.read_result|hub__read_result/,
  })),
];

const SCHEMA = {
  type: "object",
  properties: Object.fromEntries(
    Array.from({ length: 14 }, (_, at) => [`field_${at}`, {
      type: "string",
      description: "x".repeat(100),
    }]),
  ),
};
const LISTED = 1900;

/**
 * What a server answers to a message, as JSON text; null to what wants no answer. `facts` says which server it is, `grown`
 * how often its list has got other tools, many of them.
 */
export function answerOf(
  { id, method, params }: JsonObject,
  { facts, grown }: { facts: JsonObject; grown: number },
): string | null {
  if (id === undefined) return null;
  const result = (text: string) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${text}}`;
  const wish = params as JsonObject | undefined;
  switch (method) {
    case "initialize":
      return result(JSON.stringify({
        protocolVersion: wish?.["protocolVersion"] ?? "",
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: "hostile", version: "0" },
      }));
    case "tools/list": {
      const names = [...HOSTILE_RESULTS.map(({ tool }) => tool), "facts", "grow"];
      const short = names.map((name) => ({ name, inputSchema: { type: "object" } }));
      const long = Array.from({ length: grown > 0 ? LISTED : 0 }, (_, at) => ({
        name: `tool_${grown}_${at}`,
        description: "y".repeat(500),
        inputSchema: SCHEMA,
      }));
      return result(JSON.stringify({ tools: [...short, ...long] }));
    }
    case "tools/call": {
      const found = HOSTILE_RESULTS.find(({ tool }) => tool === wish?.["name"]);
      return result(found?.result() ?? said(JSON.stringify(JSON.stringify(facts))));
    }
    default:
      return JSON.stringify({
        jsonrpc: "2.0",
        id,
        error: { code: -32601, message: "Method not found" },
      });
  }
}
