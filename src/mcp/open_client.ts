import { VERSION } from "../core/version.ts";
import type { Client } from "@modelcontextprotocol/client";
import type { LoadedMcpServer, McpTransport } from "../config/complete_mcp_servers.ts";
import { answerSampling } from "./answer_sampling.ts";
import { answerRoots } from "./answer_roots.ts";
import {
  answerQuestions,
  type Asker,
  QUESTION_CAPABILITIES,
  type ServerAnswers,
} from "./answer_questions.ts";
import { createTransport } from "./create_transport.ts";
import { describeFailure, statusOf } from "./failure.ts";
import type { OpenOptions, Sdk } from "./open_options.ts";
import { passMessages } from "./pass_messages.ts";
import { isolateServer } from "./isolate_server.ts";
import { watchMessages } from "./watch_messages.ts";
import { resolveVariables } from "./resolve_variables.ts";
import { StdioTransport } from "./stdio_transport.ts";
import { untilAborted } from "./until_aborted.ts";

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

interface Attempt {
  transport: McpTransport;
  mode: "legacy" | "auto" | { pin: string };
}

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
  const within = options.transport === "stdio"
    ? await isolateServer(server, options.isolation)
    : [];
  const transport = createTransport(sdk, server, {
    ...options,
    within,
    ended: ended.signal,
    onStreamEnd() {
      if (isOpen) void transport.close();
    },
  });
  const { handed, trace, secrets } = options;
  watchMessages(transport, {
    received(message) {
      const own = secrets.scrubMessage(message);
      const clean = handed?.scrubMessage(own) ?? own;
      trace?.message("received", clean);
      return clean;
    },
    sent: (message) => trace?.message("sent", message),
  });
  const news = (onChanged: () => void) => ({ autoRefresh: false, debounceMs: 0, onChanged });
  const content = news(() => options.onContentChanged());
  const tools = news(() => options.onToolsChanged());
  const askers = new Set<Asker>();
  const client = new sdk.Client({ name: "loophub", version: VERSION }, {
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
  const ending = () => {
    const text = "ending" in transport ? transport.ending : null;
    return text === null ? null : secrets.scrub(text);
  };
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
    const said = secrets.scrub(describeFailure(error));
    trace?.note("failed", handed?.scrub(said) ?? said);
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
    stderr: () => transport instanceof StdioTransport ? secrets.scrub(transport.stderr) : "",
    close,
  };
}
