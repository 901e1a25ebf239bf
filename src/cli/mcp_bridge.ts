import { parseArgs } from "node:util";
import { type JSONRPCMessage, parseJSONRPCMessage } from "@modelcontextprotocol/server";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { LineTransport } from "../headends/mcp_server/line_transport.ts";
import { WebSocketTransport } from "../mcp/web_socket_transport.ts";
import { askHub } from "./ask_hub.ts";
import { EXIT } from "./exit_codes.ts";
import { findRemote } from "./find_remote.ts";
import { printError } from "./print.ts";
import { catchStopSignal } from "./stop_signals.ts";

/** Longest message of a hub. */
const MAX_FRAME_BYTES = 64 * 1024 * 1024;
/** JSON-RPC's code for what a server has no code for. */
const FAILED = -32000;

/**
 * `loophub mcp --url URL`: the `/mcp` of a running hub for a client that speaks over stdin and stdout alone. Messages go
 * through as they are, both ways and in every revision; it ends with its input, with 1 when the hub is lost or not to be had.
 */
export async function bridgeMcp(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: { url: { type: "string" }, "key-env": { type: "string" } },
  });
  const url = (values.url ?? "").replace(/\/+$/, "").replace(/\/mcp$/, "");
  const variable = values["key-env"];
  const hub = findRemote({ url, variable });
  if (hub === null) return EXIT.usage;
  const stopped = catchStopSignal();
  const client = new LineTransport({
    input: Deno.stdin.readable,
    output: Deno.stdout.writable,
  });
  const pending = new Pending(client);
  const key = Deno.env.get(variable ?? "LOOPHUB_KEY") ?? "";
  const server = new WebSocketTransport({
    url: `${url.replace(/^http/, "ws")}/mcp`,
    headers: { authorization: `Bearer ${key}` },
    parse: (text) => parseJSONRPCMessage(JSON.parse(text)),
    maxFrameBytes: MAX_FRAME_BYTES,
  });
  const lost = Promise.withResolvers<"lost">();
  const onclose = () => lost.resolve("lost");
  const fromServer = (message: JSONRPCMessage) => {
    pending.answered(message);
    client.send(message).catch(() => {/* the client has left, which ends it */});
  };
  Object.assign(server, { onclose, onmessage: fromServer });
  let problem: string | null = null;
  const connected = askHub(hub, "/v1/models").then(() => server.start()).catch((error: unknown) => {
    problem = error instanceof Error ? error.message : String(error);
    lost.resolve("lost");
  });
  let sending: Promise<unknown> = connected;
  const onmessage = (message: JSONRPCMessage) => {
    pending.asked(message);
    if (problem !== null) return void pending.fail(problem);
    sending = sending.then(() => problem === null ? server.send(message) : undefined)
      .catch(() => lost.resolve("lost"));
  };
  Object.assign(client, { onmessage });
  await client.start();
  const end = await Promise.race([client.closed.then(() => "closed"), stopped, lost.promise]);
  if (end !== "lost") {
    await server.close();
    return EXIT.ok;
  }
  problem ??= server.ending ?? `The connection to ${hub.name} has ended`;
  printError(problem);
  // A client that has asked nothing yet is told with its first request.
  if (pending.size === 0) await Promise.race([pending.first, client.closed, stopped]);
  await pending.fail(problem);
  await client.close();
  return EXIT.failed;
}

/** Requests of the client that wait for an answer. */
class Pending {
  readonly #client: LineTransport;
  readonly #ids = new Set<Json>();
  readonly #first = Promise.withResolvers<void>();

  constructor(client: LineTransport) {
    this.#client = client;
  }

  get size(): number {
    return this.#ids.size;
  }

  /** Resolves with the first request. */
  get first(): Promise<void> {
    return this.#first.promise;
  }

  asked(message: JSONRPCMessage): void {
    const { id, method } = message as unknown as JsonObject;
    if (id === undefined || method === undefined) return;
    this.#ids.add(id);
    this.#first.resolve();
  }

  answered(message: JSONRPCMessage): void {
    const read = message as unknown as Json;
    if (isJsonObject(read) && read["method"] === undefined) this.#ids.delete(read["id"] ?? null);
  }

  /** Answers all of them with an error. */
  async fail(message: string): Promise<void> {
    const ids = [...this.#ids];
    this.#ids.clear();
    for (const id of ids) {
      const answer = { jsonrpc: "2.0", id, error: { code: FAILED, message } };
      await this.#client.send(answer as unknown as JSONRPCMessage).catch(() => {/* it has left */});
    }
  }
}
