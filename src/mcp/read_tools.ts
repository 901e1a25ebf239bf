import type { Client } from "@modelcontextprotocol/client";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { cleanSchema } from "./clean_schema.ts";
import { cleanText } from "./clean_text.ts";
import { findHeaderFault } from "./param_headers.ts";
import { type ReadOptions, readPages } from "./read_pages.ts";
import { findOversize } from "./schema_bounds.ts";

/** A tool as its server lists it, repaired. */
export interface McpTool {
  /** Its own name, as the server wants to be called. */
  name: string;
  description: string;
  inputSchema: JsonObject;
  /** What the server says of it. */
  readOnly: boolean;
  idempotent: boolean;
  hints?: { destructiveHint?: boolean; openWorldHint?: boolean };
  /** For people; left out where it has none. */
  title?: string;
  /** Of `structuredContent`; left out where there is none, or none that can be passed on. */
  outputSchema?: JsonObject;
}

/** All tools of a server, and why some are left out. */
export interface ToolListing {
  tools: McpTool[];
  dropped: { name: string; reason: string }[];
}

const MAX_TOOLS = 2000;
const MAX_NAME_CHARS = 256;
/** A bound of the hub's own; providers that take less get less, see `toolDescriptionChars`. */
const MAX_DESCRIPTION_CHARS = 16 * 1024;
const MAX_INSTRUCTIONS_CHARS = 4000;

/** How a server wants its tools to be used, in its own words; empty when it says nothing. */
export function instructionsOf(client: Client): string {
  return cleanText(client.getInstructions() ?? "", MAX_INSTRUCTIONS_CHARS);
}

/** Reads all pages of the list of tools. Rejects when the server refuses; odd tools are repaired or dropped alone. */
export async function readTools(
  client: Client,
  options: ReadOptions,
): Promise<ToolListing> {
  const listing: ToolListing = { tools: [], dropped: [] };
  if (client.getServerCapabilities()?.tools === undefined) return listing;
  const names = new Set<string>();
  const mirrors = mirrorsArguments(client);
  await readPages(client, {
    method: "tools/list",
    member: "tools",
    take(entry) {
      take(entry, listing, { names, mirrors });
      return listing.tools.length < MAX_TOOLS;
    },
  }, options);
  return listing;
}

/** Whether calls of its tools send arguments as headers too. */
export function mirrorsArguments(client: Client): boolean {
  return client.getProtocolEra() === "modern";
}

function take(
  entry: Json,
  { tools, dropped }: ToolListing,
  { names, mirrors }: { names: Set<string>; mirrors: boolean },
): void {
  const drop = (name: string, reason: string) => {
    if (dropped.length < 100) dropped.push({ name, reason });
  };
  if (!isJsonObject(entry)) return drop("(no name)", "it is no object");
  const { name } = entry;
  if (typeof name !== "string" || name === "") return drop("(no name)", "it has no name");
  if (name.length > MAX_NAME_CHARS) return drop(name.slice(0, 64), "its name is too long");
  if (names.has(name)) return drop(name, "another tool of the server has its name");
  if (tools.length >= MAX_TOOLS) return drop(name, `the server has more than ${MAX_TOOLS} tools`);
  const schema = schemaOf(entry);
  const fault = findOversize(schema) ?? (mirrors ? findHeaderFault(schema) : null);
  if (fault !== null) return drop(name, fault);
  const inputSchema = cleanSchema(schema);
  if (inputSchema === null) return drop(name, "its schema has characters that nobody sees");
  names.add(name);
  const annotations = isJsonObject(entry.annotations) ? entry.annotations : {};
  const described = [entry.description, annotations.title, entry.title]
    .find((text): text is string => typeof text === "string" && text.trim() !== "");
  tools.push({
    name,
    description: cleanText(described ?? name, MAX_DESCRIPTION_CHARS) || cleanText(name, 64),
    inputSchema,
    readOnly: annotations.readOnlyHint === true,
    idempotent: annotations.idempotentHint === true,
    ...shownOf(entry, annotations),
  });
}

/** What is only passed on to whoever lists the hub's tools. */
function shownOf(
  { title, outputSchema }: JsonObject,
  { title: annotated, destructiveHint, openWorldHint }: JsonObject,
): Pick<McpTool, "hints" | "title" | "outputSchema"> {
  const named = [title, annotated].find((text) => typeof text === "string");
  const shown = typeof named === "string" ? cleanText(named, MAX_NAME_CHARS) : "";
  const isUsable = isJsonObject(outputSchema) && outputSchema.type === "object" &&
    findOversize(outputSchema) === null;
  const clean = isUsable ? cleanSchema(outputSchema) : null;
  const hints = {
    ...typeof destructiveHint === "boolean" ? { destructiveHint } : {},
    ...typeof openWorldHint === "boolean" ? { openWorldHint } : {},
  };
  return {
    ...Object.keys(hints).length === 0 ? {} : { hints },
    ...shown === "" ? {} : { title: shown },
    ...clean === null ? {} : { outputSchema: clean },
  };
}

/** Some servers call it `parameters` or `input_schema`, and tools without arguments have none. */
function schemaOf({ inputSchema, parameters, input_schema }: JsonObject): JsonObject {
  const found = [inputSchema, parameters, input_schema].find(isJsonObject);
  return found ?? { type: "object", properties: {} };
}
