import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import { type Clock, doneWithin } from "../core/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { LineTransport } from "../headends/mcp_server/line_transport.ts";
import { LISTEN } from "../headends/mcp_server/listen_filter.ts";

/** What a bridge joins. */
export interface BridgeOptions {
  clock: Clock;
  client: LineTransport;
  /** The hub; `ending` is why its connection has ended, where it was at fault. */
  server: Transport & { readonly ending: string | null };
  /** How people know the hub. */
  name: string;
  /** Opens the connection to the hub. */
  connect(): Promise<void>;
  /** Resolves when it has to end at once. */
  stopped: Promise<unknown>;
  /** Called with why it ends before its client does. */
  onLost(problem: string): void;
}

/** JSON-RPC's code for what a server has no code for. */
const FAILED = -32000;
/** What is asked before the end of the input is answered within this time after it, or not at all. */
const ANSWER_MS = 60_000;

/**
 * Messages go through as they are, both ways and in every revision, until the client leaves or has been answered after the
 * end of its input. False when the hub is lost, not to be had, or does not answer: then the client is told so.
 */
export async function bridgeMessages(options: BridgeOptions): Promise<boolean> {
  const { clock, client, server, name, stopped } = options;
  const pending = new Pending(client);
  const lost = Promise.withResolvers<"lost">();
  let writing: Promise<unknown> = Promise.resolve();
  Object.assign(server, {
    onclose: () => lost.resolve("lost"),
    onmessage(message: JSONRPCMessage) {
      pending.answered(message);
      writing = client.send(message).catch(() => {/* the client has left, which ends it */});
    },
  });
  let problem: string | null = null;
  let sending: Promise<unknown> = options.connect().catch((error: unknown) => {
    problem = error instanceof Error ? error.message : String(error);
    lost.resolve("lost");
  });
  Object.assign(client, {
    onmessage(message: JSONRPCMessage) {
      pending.asked(message);
      if (problem !== null) return void pending.fail(problem);
      sending = sending.then(() => problem === null ? server.send(message) : undefined)
        .catch(() => lost.resolve("lost"));
    },
  });
  await client.start();
  const isAnswered = client.inputEnded.then(() =>
    doneWithin(clock, ANSWER_MS, sending.then(() => pending.settled()).then(() => writing))
  );
  const end = await Promise.race([
    client.closed.then(() => "closed"),
    stopped,
    lost.promise,
    isAnswered.then((isIt) => isIt ? "answered" : "late"),
  ]);
  if (end !== "lost" && end !== "late") {
    await server.close();
    return true;
  }
  const seconds = ANSWER_MS / 1000;
  problem ??= end === "late"
    ? `There was no answer within ${seconds} s after the end of the input`
    : server.ending ?? `The connection to ${name} has ended`;
  options.onLost(problem);
  // A client that has asked nothing yet is told with its first request.
  if (pending.size === 0) await Promise.race([pending.first, client.inputEnded, stopped]);
  await Promise.race([pending.fail(problem), stopped]);
  await Promise.all([client.close(), server.close()]);
  return false;
}

/** Requests of the client that wait for an answer. */
class Pending {
  readonly #client: LineTransport;
  /** Methods by id. */
  readonly #asked = new Map<Json, Json>();
  readonly #first = Promise.withResolvers<void>();
  #onSettled = () => {};

  constructor(client: LineTransport) {
    this.#client = client;
  }

  get size(): number {
    return this.#asked.size;
  }

  /** Resolves with the first request. */
  get first(): Promise<void> {
    return this.#first.promise;
  }

  /** Resolves when no request waits whose answer ends by itself. */
  settled(): Promise<void> {
    return new Promise((resolve) => {
      this.#onSettled = resolve;
      this.#check();
    });
  }

  asked(message: JSONRPCMessage): void {
    const { id, method, params } = message as unknown as JsonObject;
    if (method === undefined) return;
    if (id !== undefined) {
      this.#asked.set(id, method);
      this.#first.resolve();
    } else if (method === "notifications/cancelled" && isJsonObject(params)) {
      // Nobody answers it any more.
      this.#forget(params["requestId"] ?? null);
    }
  }

  answered(message: JSONRPCMessage): void {
    const read = message as unknown as Json;
    if (isJsonObject(read) && read["method"] === undefined) this.#forget(read["id"] ?? null);
  }

  /** Answers all of them with an error. */
  async fail(message: string): Promise<void> {
    const ids = [...this.#asked.keys()];
    this.#asked.clear();
    for (const id of ids) {
      const answer = { jsonrpc: "2.0", id, error: { code: FAILED, message } };
      await this.#client.send(answer as unknown as JSONRPCMessage).catch(() => {/* it has left */});
    }
  }

  #forget(id: Json): void {
    this.#asked.delete(id);
    this.#check();
  }

  #check(): void {
    if ([...this.#asked.values()].every((method) => method === LISTEN)) this.#onSettled();
  }
}
