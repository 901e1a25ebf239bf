import type { Client, Transport } from "@modelcontextprotocol/client";
import type { LoadedMcpServer, McpTransport } from "../config/complete_mcp_servers.ts";
import type { Clock } from "../core/clock.ts";
import type { Sampler } from "../core/sampling.ts";
import { answerSampling } from "./answer_sampling.ts";
import { answerRoots } from "./answer_roots.ts";
import {
  answerQuestions,
  type Asker,
  QUESTION_CAPABILITIES,
  type ServerAnswers,
} from "./answer_questions.ts";
import { createBoundedFetch } from "./bounded_fetch.ts";
import { describeFailure, statusOf } from "./failure.ts";
import { passMessages } from "./pass_messages.ts";
import type { Log } from "../core/log.ts";
import type { Lifeline } from "./lifeline.ts";
import type { HandedSource } from "./handed_source.ts";
import { createTransportAuth, type TokenSource } from "./oauth/auth_provider.ts";
import type { ServerTrace } from "./server_trace.ts";
import { watchMessages } from "./watch_messages.ts";
import { watchStream } from "./watch_stream.ts";
import { resolveRecord, resolveVariables } from "./resolve_variables.ts";
import { MAX_FRAME_BYTES, StdioTransport } from "./stdio_transport.ts";
import { untilAborted } from "./until_aborted.ts";
import { WebSocketTransport } from "./web_socket_transport.ts";

/** What connecting touches. */
export interface OpenOptions {
  env: (name: string) => string | undefined;
  addSecret(secret: string): void;
  clock: Clock;
  log: Log;
  /** Ends servers that run here should the hub be killed. */
  lifeline: Lifeline;
  signal: AbortSignal;
  /** Called when the server says that its tools have changed. */
  onToolsChanged(): void;
  /** Called when it says that its resources or prompts have changed. */
  onContentChanged(): void;
  onClose(): void;
  /** Whose tokens are sent; left out where none are. */
  tokens?: TokenSource | undefined;
  /** Asks models for servers that may; left out where there are none. */
  sample?: Sampler | undefined;
  /** Where what happens is noted; left out where it is not. */
  trace?: ServerTrace | undefined;
  /** What a caller handed over for this connection alone. */
  handed?: HandedSource | undefined;
}

/** A client that has shaken hands with its server. */
export interface OpenedClient {
  client: Client;
  /** Those of its calls that are under way. */
  askers: Set<Asker>;
  /** How what it asks by results is answered. */
  answers: ServerAnswers;
  /** Its settings. */
  server: LoadedMcpServer;
  transport: McpTransport;
  /** Whether the server may know nothing of it: it gave a session, or an older server may stand in its place. */
  hasSession(): boolean;
  /** Why the server ended by itself, where it can be told. */
  ending(): string | null;
  /** The last of what the server wrote to stderr. */
  stderr(): string;
  /** Ends the connection, and a server that was started for it. Never rejects. */
  close(): Promise<void>;
}

type Sdk = typeof import("@modelcontextprotocol/client");

interface Attempt {
  transport: McpTransport;
  mode: "legacy" | "auto" | { pin: string };
}

/** Time that a server gets to end by itself, and again after SIGTERM. */
export const GRACE_MS = 1500;
const PROBE_MS = 4000;
/** How servers were last connected to that do not know the newest revision, so that they are not asked for it each time. */
const verdicts = new WeakMap<LoadedMcpServer, Attempt>();

/**
 * Connects to a server. The protocol's package is loaded with the first one: a hub without servers does without it. A
 * client is never used again after a connect that failed.
 */
export async function openClient(
  server: LoadedMcpServer,
  options: OpenOptions,
): Promise<OpenedClient> {
  const sdk = await import("@modelcontextprotocol/client");
  const known = verdicts.get(server);
  const attempts = [...known === undefined ? [] : [known], ...attemptsOf(server)];
  for (let at = 0;; at++) {
    const attempt = attempts[at];
    if (attempt === undefined) throw new Error("There is no way to connect");
    try {
      const opened = await open(sdk, server, { ...options, ...attempt });
      if (opened.client.getProtocolEra() === "modern") verdicts.delete(server);
      else if (server.transport === "http" && server.protocol === "auto") {
        verdicts.set(server, { transport: attempt.transport, mode: "legacy" });
      }
      return opened;
    } catch (error) {
      const hasMore = at + 1 < attempts.length;
      const isOutdated = attempt === known && !isRefused(error);
      if (isOutdated) verdicts.delete(server);
      const mayHelp = isOutdated || mayBeOlder(sdk, error);
      if (!hasMore || options.signal.aborted || !mayHelp) throw error;
    }
  }
}

/** True when the server would refuse any other attempt too. */
function isRefused(error: unknown): boolean {
  const status = statusOf(error);
  return status === 401 || status === 403 || status !== null && status >= 500;
}

function attemptsOf({ transport, protocol, mayFallBack }: LoadedMcpServer): Attempt[] {
  const mode = protocol === "auto" || protocol === "legacy" ? protocol : { pin: protocol };
  const attempts: Attempt[] = [{ transport, mode }];
  if (transport === "http" && mode === "auto") attempts.push({ transport, mode: "legacy" });
  if (mayFallBack && protocol !== "2026-07-28") attempts.push({ transport: "sse", mode: "legacy" });
  return attempts;
}

/** True when the server may just not know the newest revision, or the transport. */
function mayBeOlder(sdk: Sdk, error: unknown): boolean {
  const status = statusOf(error);
  if (status !== null) return status === 400 || status === 404 || status === 405 || status === 406;
  return error instanceof sdk.SdkError && error.code === sdk.SdkErrorCode.RequestTimeout;
}

async function open(
  sdk: Sdk,
  server: LoadedMcpServer,
  options: OpenOptions & Attempt,
): Promise<OpenedClient> {
  const { signal, mode } = options;
  const ended = new AbortController();
  const transport = createTransport(sdk, server, {
    ...options,
    ended: ended.signal,
    onStreamEnd() {
      if (isOpen) void transport.close();
    },
  });
  const { handed, trace } = options;
  if (handed !== undefined || trace !== undefined) {
    watchMessages(transport, {
      received(message) {
        const clean = handed?.scrubMessage(message) ?? message;
        trace?.message("received", clean);
        return clean;
      },
      sent: (message) => trace?.message("sent", message),
    });
  }
  const news = (onChanged: () => void) => ({ autoRefresh: false, debounceMs: 0, onChanged });
  const content = news(() => options.onContentChanged());
  const tools = news(() => options.onToolsChanged());
  const askers = new Set<Asker>();
  const client = new sdk.Client({ name: "loophub", version: "0.1.0" }, {
    capabilities: {
      ...QUESTION_CAPABILITIES,
      ...server.sampling === false ? {} : { sampling: {} },
      ...(server.roots ?? []).length === 0 ? {} : { roots: {} },
    },
    versionNegotiation: { mode, probe: { timeoutMs: PROBE_MS } },
    listChanged: { tools, resources: content, prompts: content },
  });
  const resolve = (text: string) => resolveVariables(text, options.env).text;
  passMessages(client, { askers, source: server.slug, log: options.log });
  const hide = (secrets: string[]) => trace?.hide(secrets);
  const answers = {
    roots: answerRoots(client, server, resolve),
    sample: answerSampling(client, { askers, server, sample: options.sample }),
    elicit: answerQuestions(client, {
      askers,
      source: server.slug,
      hide,
    }),
    hide,
  };
  let isOpen = false;
  const onClose = () => {
    trace?.note("closed", ending() ?? "");
    if (isOpen) options.onClose();
  };
  client.onclose = onClose;
  const close = async () => {
    isOpen = false;
    await client.close().catch(() => {});
    await transport.close().catch(() => {});
    ended.abort();
  };
  const ending = () => "ending" in transport ? transport.ending : null;
  trace?.note("connect", `${options.transport}, ${typeof mode === "string" ? mode : mode.pin}`);
  try {
    signal.throwIfAborted();
    // Neither opening a WebSocket or a stream nor the probe ends with the signal by itself.
    const connecting = client.connect(transport, { signal, timeout: server.connectTimeoutMs });
    await untilAborted(connecting, signal);
    signal.throwIfAborted();
    isOpen = true;
    trace?.note("connected", `protocol ${client.getNegotiatedProtocolVersion()}`);
  } catch (error) {
    trace?.note("failed", handed?.scrub(describeFailure(error)) ?? describeFailure(error));
    await close();
    const reason = signal.aborted ? null : ending();
    throw reason === null ? error : new Error(reason, { cause: error });
  }
  return {
    client,
    server,
    askers,
    answers,
    transport: options.transport,
    hasSession: () =>
      "sessionId" in transport &&
      (transport.sessionId !== undefined || client.getProtocolEra() === "modern"),
    ending,
    stderr: () => transport instanceof StdioTransport ? transport.stderr : "",
    close,
  };
}

function createTransport(
  sdk: Sdk,
  server: LoadedMcpServer,
  options: OpenOptions & Attempt & { ended: AbortSignal; onStreamEnd(): void },
): Transport | StdioTransport | WebSocketTransport {
  const { env, trace } = options;
  const resolve = (text: string) => {
    const { text: resolved, values } = resolveVariables(text, env);
    for (const value of values) if (value !== "") options.addSecret(value);
    return resolved;
  };
  const parse = (text: string) => sdk.parseJSONRPCMessage(JSON.parse(text));
  if (options.transport === "stdio") {
    const own = resolveRecord(server.env, options);
    trace?.hide(Object.values(own));
    const from = (name: string) => env(name) === undefined ? {} : { [name]: env(name) ?? "" };
    return new StdioTransport({
      argv: server.argv.map(resolve),
      env: { ...from("PATH"), ...from("HOME"), ...own },
      ...(server.cwd === undefined ? {} : { cwd: server.cwd }),
      graceMs: GRACE_MS,
      clock: options.clock,
      lifeline: options.lifeline,
      onStderr: (text) => trace?.stderr(text),
      parse,
    });
  }
  const configured = resolveRecord(server.headers, options);
  const headers = options.handed?.headersWith(configured) ?? configured;
  trace?.hide(Object.values(headers));
  const url = resolve(server.url ?? "");
  if (options.transport === "ws") {
    const { clock } = options;
    return new WebSocketTransport({ url, clock, headers, parse, maxFrameBytes: MAX_FRAME_BYTES });
  }
  const bounded = createBoundedFetch(MAX_FRAME_BYTES, options.ended);
  const sent: typeof bounded = (url, init) => {
    const authorization = new Headers(init?.headers).get("authorization");
    if (authorization !== null) trace?.hide([authorization]);
    return bounded(url, init);
  };
  const told = trace === undefined ? bounded : sent;
  const followed = options.transport === "sse" ? watchStream(told, options.onStreamEnd) : told;
  const fetch = options.handed?.authorize(followed) ?? followed;
  const auth = options.tokens === undefined
    ? { fetch }
    : createTransportAuth(options.tokens, fetch);
  const settings = { requestInit: { headers }, ...auth };
  return options.transport === "sse"
    ? new sdk.SSEClientTransport(new URL(url), settings)
    : new sdk.StreamableHTTPClientTransport(new URL(url), settings);
}
