import { createHash } from "node:crypto";
import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import { cleanText } from "./clean_text.ts";
import type { McpContent } from "./read_content.ts";
import type { McpTool, ToolListing } from "./read_tools.ts";

/** Hash of each definition that counts, by the tool's own name. */
export type Pins = Readonly<Record<string, string>>;

/** What a server listed last, so that it need not be asked before it is called. */
export interface Catalogue {
  tools: readonly McpTool[];
  instructions: string;
  /** Null for servers that are trusted. */
  pins: Pins | null;
  /** Null where it is not known. */
  content: McpContent | null;
}

/** Another number where what is kept of tools has become another: lists that were kept before count no more. */
const KEPT = 2;

/** Tells how a server is reached: the program, its arguments and folder, the address, the names of variables and headers. */
export function configHash(server: LoadedMcpServer): string {
  const { transport, argv, url, cwd, env, headers } = server;
  return hashOf({
    kept: KEPT,
    transport,
    argv: [...argv],
    url: url ?? null,
    cwd: cwd ?? null,
    env: Object.keys(env ?? {}).sort(),
    headers: Object.keys(headers ?? {}).sort(),
  });
}

/** Pins each of these definitions. */
export function pinAll(tools: readonly McpTool[]): Pins {
  const pins: Record<string, string> = Object.create(null);
  for (const tool of tools) pins[tool.name] = pinOf(tool);
  return pins;
}

/** Longest description that releases up to 0.1 knew, in characters. */
const FORMER_DESCRIPTION_CHARS = 1024;

/**
 * The pins with those of these tools renewed that were made when descriptions were cut: a definition that is the same as
 * far as it was known then counts on, and from here on as a whole.
 */
export function renewPins(pins: Pins, tools: readonly McpTool[]): Pins {
  const known = new Map(Object.entries(pins));
  const renewed = tools.filter(({ description }) => description.length > FORMER_DESCRIPTION_CHARS)
    .filter((tool) => {
      const description = cleanText(tool.description, FORMER_DESCRIPTION_CHARS);
      return known.get(tool.name) === pinOf({ ...tool, description });
    });
  return renewed.length === 0 ? pins : Object.assign(Object.create(null), pins, pinAll(renewed));
}

function pinOf(tool: McpTool): string {
  return hashOf({ ...tool });
}

/** The listing without tools whose definition is new or another one than was pinned; those are told among the dropped. */
export function holdBack(listing: ToolListing, pins: Pins): ToolListing {
  const now = pinAll(listing.tools);
  const known = new Map(Object.entries(pins));
  const isPinned = ({ name }: McpTool) => known.get(name) === now[name];
  const held = listing.tools.filter((tool) => !isPinned(tool));
  return {
    tools: listing.tools.filter(isPinned),
    dropped: [
      ...listing.dropped,
      ...held.map(({ name }) => ({
        name,
        reason: known.has(name)
          ? "its definition has changed since it was approved"
          : "it is new, and the server is not trusted",
      })),
    ],
  };
}

function hashOf(value: Json): string {
  return createHash("sha256").update(canonicalJson(value)).digest("hex");
}
