import { HubError } from "../core/error.ts";
import type { McpConnection } from "../mcp/connection.ts";
import type { McpServers } from "../mcp/mcp_servers.ts";
import type { McpContent } from "../mcp/read_content.ts";
import {
  complete,
  type Completion,
  type CompletionWish,
  contentOf,
  followResource,
  getPrompt,
  readResource,
} from "../mcp/server_content.ts";
import { resourceName, toolName } from "../mcp/tool_names.ts";
import type { JsonObject } from "../core/json.ts";
import type { CallingAgain } from "../core/tool.ts";
import { allows, type KeyPolicy } from "./key_policy.ts";

/** Who wants something of servers, and until when. */
export interface ContentCaller {
  tenantId: string;
  keyId: string;
  signal: AbortSignal;
  /** Set where it is asked by results: `InputRequired` is thrown then. */
  again?: CallingAgain | undefined;
  /** What it may use, by the names of tools; left out, what its key may use. */
  mayUse?(name: string): boolean;
}

/** What finding it needs. */
export interface CallersContentOptions {
  mcp: Pick<McpServers, "connectionsFor">;
  policyOf(keyId: string): KeyPolicy;
}

/** Longest wait for connections that are a caller's own. */
const WAIT_MS = 5000;

/**
 * Resources and prompts of MCP servers, as far as a caller goes. A prompt is known as a tool of its name would be, a resource
 * as `prefix__URI`: so the same patterns say what of tools, prompts and resources may be used.
 */
export class CallersContent {
  readonly #options: CallersContentOptions;

  constructor(options: CallersContentOptions) {
    this.#options = options;
  }

  /** The servers of a caller, over connections of its own where it has authorized some. */
  async servers(caller: ContentCaller): Promise<McpConnection[]> {
    const all = await this.#options.mcp.connectionsFor(caller, WAIT_MS);
    return all.filter(({ server }) => server.enabled);
  }

  /** The server of this name or prefix. Throws `not_found`. */
  async find(caller: ContentCaller, name: string): Promise<McpConnection> {
    const servers = await this.servers(caller);
    const found = servers.find((connection) => connection.name === name) ??
      servers.find(({ server }) => server.slug === name);
    if (found !== undefined) return found;
    throw new HubError("not_found", `There is no MCP server ${JSON.stringify(name.slice(0, 64))}`);
  }

  /** What of it the caller may use. */
  async list(caller: ContentCaller, connection: McpConnection): Promise<McpContent> {
    return this.restrict(caller, connection, await contentOf(connection, caller.signal));
  }

  /** That of a content which the caller may use. */
  restrict(
    caller: ContentCaller,
    { server }: McpConnection,
    { resources, templates, prompts }: McpContent,
  ): McpContent {
    const may = this.#mayUse(caller);
    return {
      resources: resources.filter(({ uri }) => mayRead(may, server, uri)),
      templates: templates.filter(({ uriTemplate }) => may(resourceName(server, uriTemplate))),
      prompts: prompts.filter(({ name }) => may(toolName(server, name))),
    };
  }

  /** The contents of a resource. Throws `not_found` for what the caller may not read, as for what is not there. */
  async read(
    caller: ContentCaller,
    connection: McpConnection,
    uri: string,
  ): Promise<JsonObject[]> {
    this.#assertResource(caller, connection, uri);
    const { signal, again } = caller;
    return await readResource(connection, { uri, signal, again });
  }

  /** Calls `onUpdate` when a resource has changed, until what it gives is called. Throws `not_found` as `read` does. */
  async follow(
    caller: ContentCaller,
    connection: McpConnection,
    { uri, onUpdate }: { uri: string; onUpdate: () => void },
  ): Promise<() => void> {
    this.#assertResource(caller, connection, uri);
    return await followResource(connection, { uri, onUpdate, signal: caller.signal });
  }

  /** Whether the caller may read a resource. */
  mayRead(caller: ContentCaller, { server }: McpConnection, uri: string): boolean {
    return mayRead(this.#mayUse(caller), server, uri);
  }

  /** A prompt, filled. Throws `not_found` as `read` does. */
  async prompt(
    caller: ContentCaller,
    connection: McpConnection,
    wish: { name: string; arguments: Record<string, string> },
  ): Promise<{ description?: string; messages: JsonObject[] }> {
    this.#assertPrompt(caller, connection, wish.name);
    const { signal, again } = caller;
    return await getPrompt(connection, { ...wish, signal, again });
  }

  /** What could stand in an argument. Throws `not_found` as `read` does. */
  async complete(
    caller: ContentCaller,
    connection: McpConnection,
    wish: CompletionWish,
  ): Promise<Completion> {
    const { ref } = wish;
    if (ref.type === "ref/prompt") this.#assertPrompt(caller, connection, ref.name);
    else if (!this.#mayUse(caller)(resourceName(connection.server, ref.uri))) {
      throw new HubError("not_found", `There is no resource ${JSON.stringify(ref.uri)}`);
    }
    return await complete(connection, { ...wish, signal: caller.signal });
  }

  #assertResource(caller: ContentCaller, connection: McpConnection, uri: string): void {
    if (this.mayRead(caller, connection, uri)) return;
    throw new HubError("not_found", `There is no resource ${JSON.stringify(uri.slice(0, 200))}`);
  }

  #assertPrompt(caller: ContentCaller, { server }: McpConnection, name: string): void {
    if (this.#mayUse(caller)(toolName(server, name))) return;
    throw new HubError("not_found", `There is no prompt ${JSON.stringify(name.slice(0, 128))}`);
  }

  #mayUse({ keyId, mayUse }: ContentCaller): (name: string) => boolean {
    if (mayUse !== undefined) return mayUse;
    const { tools } = this.#options.policyOf(keyId);
    return (name) => allows(tools, name);
  }
}

/** A URI must be allowed however its server may read it: as it is, decoded, and with its dots followed. */
function mayRead(
  may: (name: string) => boolean,
  server: McpConnection["server"],
  uri: string,
): boolean {
  const readings = new Set([uri, decode(uri)]);
  for (const reading of [...readings]) readings.add(URL.parse(reading)?.href ?? reading);
  return [...readings].every((reading) => may(resourceName(server, reading)));
}

function decode(uri: string): string {
  try {
    return decodeURIComponent(uri);
  } catch {
    return uri;
  }
}
