import { createServer, type Socket } from "node:net";
import { type RecordedRequest, RequestReader } from "./recorded_request.ts";
import { type Reply, sendReply } from "./send_reply.ts";

export { chatCompletion, chatError, chatFrames, chatStream } from "./chat_replies.ts";
export type { RecordedRequest } from "./recorded_request.ts";
export type { Frame, Reply, ReplyEnd } from "./send_reply.ts";

/** Chooses the reply to a request; `index` counts the requests of this upstream from 0. */
export type Script = (request: RecordedRequest, index: number) => Reply | Promise<Reply>;

/** The client ended a connection that the upstream had not ended. */
export interface ClientClose {
  connection: number;
  /** Where the connection stood: between requests, while a request arrived, or while its reply was being sent. */
  during: "idle" | "request" | "reply";
  /** The request whose reply was cut short. */
  request: RecordedRequest | null;
  /** `performance.now()` of the moment the upstream noticed. */
  atMs: number;
}

/** A running upstream. Every count and list is live. */
export interface ScriptedUpstream {
  /** Base URL as providers write it: `http://127.0.0.1:port/v1`. */
  readonly url: string;
  readonly port: number;
  /** Requests whose body arrived whole (with `onHead`: whose head did), oldest first. */
  readonly requests: RecordedRequest[];
  readonly closedByClient: ClientClose[];
  /** Connections accepted since the start. */
  readonly accepted: number;
  /** Connections open now. */
  readonly open: number;
  /** Replaces what is left of the script: a function for every request, or replies used one after another. */
  script(script: Script | Reply | readonly (Reply | Script)[]): void;
  /** Answers as soon as a head for which this says true has arrived, and never reads that body. */
  answerBeforeBody(chooses: (request: RecordedRequest) => boolean): void;
  /** Reads what `answerBeforeBody` left, so that the closing of those connections is seen. */
  readLeftBodies(): void;
  /** Resolves as soon as the condition holds; looked at after every event here. Rejects after `timeoutMs` (30,000). */
  until(condition: () => boolean, timeoutMs?: number): Promise<void>;
  /** Ends every open connection, as a server does that has waited long enough; waits until they are gone here. */
  drop(how: "fin" | "reset"): Promise<void>;
  /** Closes everything and waits for it. */
  stop(): Promise<void>;
}

/** Starts an HTTP/1.1 server on a free loopback port that answers as scripted and misbehaves on demand. */
export async function startScriptedUpstream(
  initial?: Script | Reply | readonly (Reply | Script)[],
): Promise<ScriptedUpstream> {
  const requests: RecordedRequest[] = [];
  const closedByClient: ClientClose[] = [];
  const sockets = new Map<Socket, Promise<void>>();
  const watchers = new Set<() => void>();
  let accepted = 0;
  let choose: Script = emptyScript;
  let early: (request: RecordedRequest) => boolean = () => false;
  const dropped = new WeakSet<Socket>();
  const changed = () => {
    for (const watcher of [...watchers]) watcher();
  };

  function script(next: Script | Reply | readonly (Reply | Script)[]): void {
    if (typeof next === "function") {
      choose = next;
      return;
    }
    if (!isQueue(next)) {
      choose = () => next;
      return;
    }
    const queue = [...next];
    choose = (request, index) => {
      const reply = queue.shift();
      if (reply === undefined) return emptyScript();
      return typeof reply === "function" ? reply(request, index) : reply;
    };
  }

  async function converse(socket: Socket, connection: number): Promise<void> {
    const reader = new RequestReader(socket);
    const state: { during: ClientClose["during"]; request: RecordedRequest | null } = {
      during: "idle",
      request: null,
    };
    const gone = new AbortController();
    let endedHere = false;
    const note = () => {
      if (!gone.signal.aborted && !endedHere && !dropped.has(socket)) {
        closedByClient.push({ connection, ...state, atMs: performance.now() });
      }
      gone.abort();
      changed();
    };
    const left = new Promise<undefined>((resolve) =>
      gone.signal.addEventListener("abort", () => resolve(undefined))
    );
    socket.on("error", () => {});
    socket.on("end", () => {
      note();
      socket.destroy();
    });
    const closed = new Promise<void>((resolve) =>
      socket.on("close", () => {
        note();
        sockets.delete(socket);
        reader.stop();
        changed();
        resolve();
      })
    );
    try {
      for (;;) {
        state.during = "idle";
        state.request = null;
        const request = await reader.next({
          connection,
          onStart: () => state.during = "request",
          skipBody: early,
        });
        if (request === null) break;
        state.during = "reply";
        state.request = request;
        const index = requests.push(request) - 1;
        changed();
        const reply = await Promise.race([choose(request, index), left]);
        if (reply === undefined) break;
        const outcome = await sendReply({ socket, reply, request, gone: gone.signal });
        if (outcome === "keep") continue;
        if (outcome !== "gone") endedHere = true;
        if (outcome === "reset") socket.resetAndDestroy();
        if (outcome === "close") socket.end();
        break;
      }
    } catch (error) {
      socket.destroy();
      if (!gone.signal.aborted) throw error;
    }
    await closed;
  }

  async function drop(how: "fin" | "reset"): Promise<void> {
    const conversations = [...sockets.values()];
    for (const socket of [...sockets.keys()]) {
      dropped.add(socket);
      if (how === "reset") socket.resetAndDestroy();
      else socket.destroy();
    }
    await Promise.all(conversations);
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const connection = accepted++;
    sockets.set(socket, converse(socket, connection));
    changed();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  if (initial !== undefined) script(initial);

  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    port: address.port,
    requests,
    closedByClient,
    get accepted() {
      return accepted;
    },
    get open() {
      return sockets.size;
    },
    script,
    answerBeforeBody(chooses) {
      early = chooses;
    },
    readLeftBodies() {
      for (const socket of sockets.keys()) socket.resume();
    },
    until(condition, timeoutMs = 30_000) {
      return new Promise((resolve, reject) => {
        const finish = (error?: Error) => {
          clearTimeout(timer);
          watchers.delete(look);
          if (error === undefined) resolve();
          else reject(error);
        };
        const look = () => {
          if (condition()) finish();
        };
        const timer = setTimeout(
          () => finish(new Error(`The upstream waited ${timeoutMs} ms for ${condition}`)),
          timeoutMs,
        );
        watchers.add(look);
        look();
      });
    },
    drop,
    async stop() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await drop("fin");
      await closed;
    },
  };
}

function emptyScript(): Reply {
  return { status: 500, body: { error: { message: "The script has no reply left" } } };
}

function isQueue(next: Reply | readonly (Reply | Script)[]): next is readonly (Reply | Script)[] {
  return Array.isArray(next);
}
