import type { Client } from "@modelcontextprotocol/client";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { cleanText } from "./clean_text.ts";
import { type ReadOptions, readPages } from "./read_pages.ts";

/** A resource as its server lists it, cleaned. */
export interface McpResource {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  /** Bytes, where the server says them. */
  size?: number;
}

/** A pattern of resources (RFC 6570). */
export interface McpTemplate extends Omit<McpResource, "uri" | "size"> {
  uriTemplate: string;
}

/** A prompt as its server lists it, cleaned. */
export interface McpPrompt {
  name: string;
  title?: string;
  description?: string;
  arguments: McpPromptArgument[];
}

/** What a prompt is filled with. */
export interface McpPromptArgument {
  name: string;
  title?: string;
  description?: string;
  required: boolean;
}

/** What a server has beside tools. */
export interface McpContent {
  resources: McpResource[];
  templates: McpTemplate[];
  prompts: McpPrompt[];
}

/** That of a server that has nothing beside tools. */
export const NO_CONTENT: Readonly<McpContent> = Object.freeze({
  resources: [],
  templates: [],
  prompts: [],
});

const MAX_RESOURCES = 2000;
const MAX_TEMPLATES = 500;
const MAX_PROMPTS = 500;
const MAX_ARGUMENTS = 50;
const MAX_URI_CHARS = 2048;
const MAX_NAME_CHARS = 256;
const MAX_TEXT_CHARS = 1024;

/**
 * Reads all that a server lists beside tools. What it does not say that it has is not asked for; entries without what
 * makes them usable are left out, as are those past the caps. Rejects when the server refuses a list of resources or prompts;
 * one that knows no templates has none.
 */
export async function readContent(client: Client, options: ReadOptions): Promise<McpContent> {
  const capabilities = client.getServerCapabilities();
  const content: McpContent = { resources: [], templates: [], prompts: [] };
  if (capabilities?.resources !== undefined) {
    content.resources = await readList(client, {
      method: "resources/list",
      member: "resources",
      max: MAX_RESOURCES,
      keyOf: ({ uri }) => uri,
      read: readResource,
    }, options);
    content.templates = await readList(client, {
      method: "resources/templates/list",
      member: "resourceTemplates",
      max: MAX_TEMPLATES,
      keyOf: ({ uriTemplate }) => uriTemplate,
      read: readTemplate,
    }, options).catch((error: unknown) => {
      if (isUnknownMethod(error)) return [];
      throw error;
    });
  }
  if (capabilities?.prompts !== undefined) {
    content.prompts = await readList(client, {
      method: "prompts/list",
      member: "prompts",
      max: MAX_PROMPTS,
      keyOf: ({ name }) => name,
      read: readPrompt,
    }, options);
  }
  return content;
}

interface List<T> {
  method: string;
  member: string;
  max: number;
  keyOf(item: T): string;
  /** Null for what cannot be used. */
  read(entry: JsonObject): T | null;
}

async function readList<T>(
  client: Client,
  { method, member, max, keyOf, read }: List<T>,
  options: ReadOptions,
): Promise<T[]> {
  const items = new Map<string, T>();
  await readPages(client, {
    method,
    member,
    take(entry) {
      const item = isJsonObject(entry) && items.size < max ? read(entry) : null;
      if (item !== null && !items.has(keyOf(item))) items.set(keyOf(item), item);
      return items.size < max;
    },
  }, options);
  return [...items.values()].sort((a, b) => keyOf(a) < keyOf(b) ? -1 : 1);
}

function readResource(entry: JsonObject): McpResource | null {
  const uri = idOf(entry.uri, MAX_URI_CHARS);
  if (uri === null) return null;
  const { size } = entry;
  const isSize = typeof size === "number" && Number.isSafeInteger(size) && size >= 0;
  return { uri, ...described(entry, uri), ...isSize ? { size } : {} };
}

function readTemplate(entry: JsonObject): McpTemplate | null {
  const uriTemplate = idOf(entry.uriTemplate, MAX_URI_CHARS);
  return uriTemplate === null ? null : { uriTemplate, ...described(entry, uriTemplate) };
}

function readPrompt(entry: JsonObject): McpPrompt | null {
  const name = idOf(entry.name, MAX_NAME_CHARS);
  if (name === null) return null;
  const listed = Array.isArray(entry.arguments) ? entry.arguments : [];
  return {
    name,
    ...texts(entry),
    arguments: listed.slice(0, MAX_ARGUMENTS).flatMap((argument) => {
      if (!isJsonObject(argument)) return [];
      const own = idOf(argument.name, MAX_NAME_CHARS);
      if (own === null) return [];
      return [{ name: own, ...texts(argument), required: argument.required === true }];
    }),
  };
}

function described(entry: JsonObject, otherwise: string) {
  const { name, mimeType } = entry;
  const shown = typeof name === "string" ? cleanText(name, MAX_NAME_CHARS) : "";
  return {
    name: shown || otherwise.slice(0, MAX_NAME_CHARS),
    ...texts(entry),
    ...typeof mimeType === "string" ? { mimeType: cleanText(mimeType, MAX_NAME_CHARS) } : {},
  };
}

function texts({ title, description }: JsonObject): { title?: string; description?: string } {
  return {
    ...typeof title === "string" ? { title: cleanText(title, MAX_NAME_CHARS) } : {},
    ...typeof description === "string"
      ? { description: cleanText(description, MAX_TEXT_CHARS) }
      : {},
  };
}

/** What the server wants to be asked for by: as it is, or not at all. */
function idOf(value: Json | undefined, maxChars: number): string | null {
  if (typeof value !== "string" || value === "" || value.length > maxChars) return null;
  return cleanText(value, maxChars) === value ? value : null;
}

/** JSON-RPC's method not found: servers with resources need not know templates. */
function isUnknownMethod(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === -32601;
}
