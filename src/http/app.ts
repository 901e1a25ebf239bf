import type { Clock } from "../core/clock.ts";
import { HubError, toHubError } from "../core/error.ts";
import type { IdSource } from "../core/id.ts";
import type { JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { Admission } from "../policy/admission.ts";
import type { Authenticate } from "../policy/authenticate.ts";
import { LineBudget } from "../telemetry/line_budget.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import { type CallEnd, CallState } from "./call.ts";
import { fromWebRequest, type HubRequest } from "./hub_request.ts";
import { assertSingleCredentials } from "./middleware/credential_check.ts";
import type { HostPolicy } from "./middleware/host_check.ts";
import { checkOrigin, type CorsOptions } from "./middleware/origin_check.ts";
import { requestIdOf } from "./middleware/request_id.ts";
import { errorReply } from "./on_error.ts";
import { type OpenRequest, OpenRequests } from "./open_requests.ts";
import { type OpenApiInfo, toOpenApi } from "./openapi.ts";
import {
  fromResponse,
  isSource,
  jsonReply,
  Reply,
  type ReplyEnd,
  type ReplyListener,
  toResponse,
} from "./reply.ts";
import { parseTarget } from "./request_path.ts";
import { RequestSpans } from "./request_spans.ts";
import { defineRoute, type Route } from "./route.ts";
import { createRouteTable } from "./route_table.ts";

/** What a request was, told once at its end; for metrics. */
export interface RequestFacts extends CallEnd {
  method: string;
  /** Pattern of the route, `unmatched` when there was none. */
  route: string;
  requestId: string;
  keyId: string | null;
  errorCode: string | null;
}

/** What an app is made of. */
export interface AppOptions {
  routes: readonly Route[];
  authenticate: Authenticate;
  hosts: HostPolicy;
  cors?: CorsOptions | undefined;
  ids: IdSource;
  clock: Clock;
  log: Log;
  maxBodyBytes: number;
  /** Room for requests of routes for users. */
  admission: Admission;
  observe?: (facts: RequestFacts) => void;
  /** Without it no request is traced. */
  tracing?: Tracing | null;
  /** Calls the listener with keys that have ended: their open requests are given up. */
  onKeysEnded?(listener: (keyIds: readonly string[]) => void): void;
  /** Called when a streamed answer begins (+1) and ends (-1). */
  onStream?: (change: 1 | -1) => void;
  info: OpenApiInfo;
}

/** The whole HTTP surface without a socket. */
export interface App {
  /** Answers a request. Never throws and never rejects. */
  handle(request: HubRequest): Reply | Promise<Reply>;
  /** Answers a request made from a path, with a real `Response`; for tests. */
  request(path: string, init?: RequestInit): Promise<Response>;
  /** All routes, `/openapi.json` included. */
  readonly routes: readonly Route[];
  readonly openapi: JsonObject;
}

const UNMATCHED = "unmatched";
/** Nothing in it could be read in two ways. */
const PLAIN_PATH = /^(?:\/[\w-]+)+$/;
/** Lines a second about requests that were refused for want of room; their gates count all of them. */
const REFUSED_LINES = { lines: 10, perMs: 1000 };

/**
 * Joins routes and checks. The order for each request: request id, Host, credentials, path, Origin, route, then the route's own:
 * key, role, room, parameters, query, body, handler. Whatever fails ends in `on_error.ts`; every answer has its
 * request id and the hub's own time.
 */
export function createApp(options: AppOptions): App {
  const { authenticate, admission, clock, log, hosts, cors, ids } = options;
  const spans = options.tracing ? new RequestSpans(options.tracing, clock) : null;
  const refusedLines = new LineBudget(clock, REFUSED_LINES);
  const openApiRoute = defineRoute({
    method: "GET",
    path: "/openapi.json",
    auth: "public",
    tag: "hub",
    summary: "This description",
    responses: {
      200: { description: "OpenAPI 3.1 document", contentType: "application/json" },
    },
    handle: () => jsonReply(openapi),
  });
  const routes = [...options.routes, openApiRoute];
  const openapi = toOpenApi(routes, options.info);
  const table = createRouteTable(routes);

  const pass = (passage: Passage): Reply | Response | Promise<Reply | Response> => {
    const { request } = passage.call;
    hosts.assert(request);
    assertSingleCredentials(request);
    const { path } = parseTarget(request.target);
    const origin = checkOrigin(request, cors);
    passage.headers = origin.headers;
    if (origin.preflight !== null) return origin.preflight;
    const method = request.method === "HEAD" ? "GET" : request.method;
    const match = table.match(method, path);
    if (match === null) return noRoute(passage, { method: request.method, path });
    passage.route = match.route;
    spans?.begin(passage.call, match.route);
    return match.route.run(passage.call, { authenticate, admit, params: match.params });
  };

  const noRoute = (passage: Passage, { method, path }: { method: string; path: string }) => {
    const methods = table.methodsOf(path);
    if (methods.length === 0) {
      throw new HubError("not_found", `There is no ${method} ${path} here`, {
        clientCode: "unknown_url",
      });
    }
    passage.errorCode = "method_not_allowed";
    const allow = methods.includes("GET") ? [...methods, "HEAD"].join(", ") : methods.join(", ");
    const error = new HubError(
      "method_not_allowed",
      `${path} does not know the method ${method}, wanted ${allow}`,
    );
    return errorReply(error, { headers: { allow }, ...tellingOf(passage) });
  };

  /** How failures are told where the request went, though it may not have got there. */
  const tellingOf = ({ route, call: { request, requestId, errors } }: Passage) => {
    const path = request.target.split("?", 1)[0] ?? "";
    const meant = route ?? (PLAIN_PATH.test(path) ? table.match("POST", path)?.route : null);
    return { as: errors ?? meant?.errors ?? "json", requestId } as const;
  };

  const admit = (call: CallState): Promise<void> | null => {
    const entered = admission.enter(call);
    return entered === null ? null : waited(call, entered);
  };

  /** Time in a queue is none of the hub's own. */
  const waited = async (call: CallState, entered: Promise<void>): Promise<void> => {
    const startedMs = clock.monotonic();
    try {
      await entered;
    } finally {
      call.addUpstreamWait(clock.monotonic() - startedMs);
    }
  };

  const fail = (passage: Passage, failure: unknown): Reply => {
    const error = passage.gaveUp ?? toHubError(failure);
    passage.errorCode = error.code;
    const { level } = error.kind;
    if (level === "error" || level === "warn") {
      passage.call.log[level]("A request failed", {
        error,
        route: passage.route?.path ?? UNMATCHED,
      });
    }
    return errorReply(error, tellingOf(passage));
  };

  const finish = (passage: Passage, answer: Reply | Response): Reply => {
    const reply = answer instanceof Reply ? answer : fromResponse(answer);
    const { call } = passage;
    reply.extra = [
      ...reply.extra,
      ...passage.headers,
      "x-request-id",
      call.requestId,
      "x-loophub-overhead-ms",
      call.measureOverhead().toFixed(2),
    ];
    if (isSource(reply.body)) options.onStream?.(1);
    reply.listener = passage.of(reply);
    return reply;
  };

  const open = new OpenRequests();
  options.onKeysEnded?.((keyIds) => open.endFor(keyIds));

  const over = (passage: Passage, reply: Reply, { outcome, bytesOut, error }: ReplyEnd) => {
    const { call } = passage;
    open.delete(passage);
    if (isSource(reply.body)) options.onStream?.(-1);
    admission.leave(call);
    const { status } = reply;
    const durationMs = toHundredths(clock.monotonic() - call.receivedMs);
    const overheadMs = toHundredths(call.overheadMs);
    const end = { outcome, status, durationMs, overheadMs, bytesOut };
    for (const callback of call.ends) callback(end);
    if (outcome === "cut") passage.errorCode = toHubError(error).code;
    report(passage, end);
  };

  const report = (passage: Passage, end: CallEnd) => {
    const { call, route, errorCode, keyId } = passage;
    const facts: RequestFacts = {
      ...end,
      method: call.request.method,
      route: route?.path ?? UNMATCHED,
      requestId: call.requestId,
      keyId,
      errorCode,
    };
    options.observe?.(facts);
    spans?.end(call, route, facts);
    const isRefusal = errorCode === "overloaded" || errorCode === "rate_limit_exceeded";
    const isRoutine = route?.isPolled === true && facts.status < 400;
    const level = isRoutine || isRefusal && !refusedLines.take() ? "debug" : "info";
    if (log.writes(level)) log[level]("request", { ...facts });
  };

  const handle = (request: HubRequest): Reply | Promise<Reply> => {
    const mark = request.target.indexOf("?");
    const call = new CallState(request, {
      requestId: requestIdOf(request, ids),
      search: mark === -1 ? "" : request.target.slice(mark + 1),
      clock,
      log,
      maxBodyBytes: options.maxBodyBytes,
    });
    const passage = new Passage(call, over);
    open.add(passage);
    try {
      const answer = pass(passage);
      if (!(answer instanceof Promise)) return finish(passage, answer);
      return answer.then(
        (answer) => finish(passage, answer),
        (error) => finish(passage, fail(passage, error)),
      );
    } catch (error) {
      return finish(passage, fail(passage, error));
    }
  };

  return {
    routes,
    openapi,
    handle,
    async request(path, init) {
      const request = new Request(`http://localhost${path}`, init);
      return toResponse(await handle(fromWebRequest(request)));
    },
  };
}

/** Everything about one request that its end needs to know. */
class Passage implements ReplyListener, OpenRequest {
  route: Route | null = null;
  errorCode: string | null = null;
  gaveUp: HubError | null = null;
  headers: readonly string[] = [];
  readonly call: CallState;
  readonly #over: Over;
  #reply: Reply | null = null;

  constructor(call: CallState, over: Over) {
    this.call = call;
    this.#over = over;
  }

  get keyId(): string | null {
    return this.call.authenticated?.keyId ?? null;
  }

  /** Itself, to be told of the end of this reply. */
  of(reply: Reply): this {
    this.#reply = reply;
    return this;
  }

  /** Not for admin routes: the request may be the one that ended the key. WebSockets end in words of their own. */
  giveUp(reason: HubError): void {
    if (this.route?.auth !== "user" || this.#reply?.status === 101) return;
    this.gaveUp = reason;
    this.call.request.giveUp?.(reason);
  }

  ended(end: ReplyEnd): void {
    if (this.#reply !== null) this.#over(this, this.#reply, end);
  }
}

type Over = (passage: Passage, reply: Reply, end: ReplyEnd) => void;

/** As precise as anybody reads it. */
function toHundredths(ms: number): number {
  return Math.round(ms * 100) / 100;
}
