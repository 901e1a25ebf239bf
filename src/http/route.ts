import type { Static, TObject, TSchema } from "@sinclair/typebox";
import { HubError } from "../core/error.ts";
import type { Json } from "../core/json.ts";
import { parseJsonInSteps } from "../core/large_json/json_in_steps.ts";
import type { Authenticate, AuthenticatedPrincipal } from "../policy/authenticate.ts";
import { notForTokens, tokenFromHeaders } from "../policy/authenticate.ts";
import type { Call, CallState } from "./call.ts";
import { createCheck } from "../config/check_value.ts";
import type { HubRequest } from "./hub_request.ts";
import type { ErrorShape } from "./on_error.ts";
import { parseQuery } from "./parse_query.ts";
import { assertJsonContentType } from "./read_body.ts";
import type { Reply } from "./reply.ts";

/** Who may use a route. Every route says it; `admin` keys pass `user` routes too. */
export type AuthLevel = "public" | "user" | "admin";

/** Methods that routes can have; HEAD follows GET, OPTIONS is answered by the app. */
export type RouteMethod = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** One documented answer. */
export interface RouteResponse {
  description: string;
  schema?: TSchema;
  /** `application/json` unless told. */
  contentType?: string;
  /** True when the request may choose a `text/event-stream` instead. */
  orStream?: boolean;
}

/** What a route does. */
export type RouteHandle<P, Q, B> = (
  call: Call<P, Q, B>,
) => Reply | Response | Promise<Reply | Response>;

/** A body of another form that a path takes too, told apart by its shape. Browser tokens do not reach it. */
export interface OtherBody {
  takes(body: Json): boolean;
  schema: TSchema;
  errors: ErrorShape;
  /** `call.body` fits the schema. */
  handle(call: CallState): Promise<Reply>;
}

/** What is said of a route; router, checks and `/openapi.json` are all made from it. */
export interface RouteFacts {
  method: RouteMethod;
  /** Hono's pattern: `/v1/sessions/:id`, `/v1/models/:id{.+}`. Parameters are decoded once. */
  path: string;
  auth: AuthLevel;
  tag: string;
  summary: string;
  description?: string;
  params?: TObject;
  query?: TObject;
  /** Headers that the route reads by itself, and what they say. */
  headers?: Readonly<Record<string, string>>;
  /** A schema for strict JSON, or `raw` for a route that reads the bytes itself with `call.readBody()`. */
  body?: TSchema | "raw";
  otherBody?: OtherBody;
  /** Overrides the server's cap. */
  maxBodyBytes?: number;
  /** How failures are told, in OpenAI's shape unless told. */
  errors?: ErrorShape;
  /**
   * Whether a request counts among those under way, to the end of its answer. True on routes for users unless told:
   * what only follows work or ends it must get in when the hub is full.
   */
  takesRoom?: boolean;
  /** Whether a request without a key is let in all the same; none is unless told. It has no principal, and takes no room. */
  needsNoKey?: (request: HubRequest) => boolean;
  /**
   * Whether it takes browser tokens too; the route then holds `principal.scope` to its chat and agent. False unless told:
   * such a token is answered 403.
   */
  browserTokens?: boolean;
  /** Whether machines ask again and again: requests that go well are in the log at `debug` only. */
  isPolled?: boolean;
  responses: Readonly<Record<number, RouteResponse>>;
}

/** What a route needs of its app to run. */
export interface RunOptions {
  authenticate: Authenticate;
  /** Asked once it is known who calls, and before the body is read: null, or a promise of room. */
  admit: (call: CallState) => Promise<void> | null;
  params: Readonly<Record<string, string>>;
}

/** A route that is ready to be mounted. */
export interface Route extends RouteFacts {
  /** Authenticates, checks every part of the request and runs the route. Rejects or throws `HubError`. */
  run(
    call: CallState,
    options: RunOptions,
  ): Reply | Response | Promise<Reply | Response>;
}

/** Defines a route from its facts and its handler, whose input has the types of the schemas. */
export function defineRoute<
  P extends TObject = TObject,
  Q extends TObject = TObject,
  B extends TSchema = TSchema,
>(
  facts: Omit<RouteFacts, "params" | "query" | "body"> & {
    params?: P;
    query?: Q;
    body?: B | "raw";
    handle: RouteHandle<Static<P>, Static<Q>, Static<B>>;
  },
): Route {
  const { handle, ...rest } = facts;
  const { otherBody } = rest;
  const checkOther = otherBody === undefined ? null : createCheck(otherBody.schema, "body");
  const { auth, takesRoom = auth === "user", browserTokens = false } = rest;
  const { query, body, maxBodyBytes } = rest;
  const checkParams = rest.params === undefined ? null : createCheck(rest.params, "path");
  const checkQuery = query === undefined ? null : createCheck(query, "query");
  const checkBody = body === undefined || body === "raw" ? null : createCheck(body, "body");

  const serve = (call: CallState, params: Readonly<Record<string, string>>) => {
    if (maxBodyBytes !== undefined) call.maxBodyBytes = maxBodyBytes;
    if (checkParams !== null) call.params = checkParams(params);
    if (query !== undefined && checkQuery !== null) {
      call.query = checkQuery(parseQuery(call.search, query));
    }
    if (checkBody === null) return handle(call as Call<Static<P>, Static<Q>, Static<B>>);
    assertJsonContentType(call.request);
    return call.readBody().then((bytes) => parseJsonInSteps(bytes)).then((value) => {
      if (otherBody?.takes(value) === true && checkOther !== null) {
        call.errors = otherBody.errors;
        if (call.principal.scope !== undefined) throw notForTokens();
        call.body = checkOther(value);
        return otherBody.handle(call);
      }
      call.body = checkBody(value);
      return handle(call as Call<Static<P>, Static<Q>, Static<B>>);
    });
  };

  return {
    ...rest,
    run(call, { authenticate, admit, params }) {
      if (auth === "public") return serve(call, params);
      const { request } = call;
      const token = tokenFromHeaders((name) => request.header(name));
      if (token === null && rest.needsNoKey?.(request) === true) return serve(call, params);
      const principal = authenticate(token, { browserTokens });
      const enter = (principal: AuthenticatedPrincipal) => {
        assertRole(principal, auth);
        call.authenticated = principal;
        const admitted = takesRoom ? admit(call) : null;
        return admitted === null ? serve(call, params) : admitted.then(() => serve(call, params));
      };
      return principal instanceof Promise ? principal.then(enter) : enter(principal);
    },
  };
}

function assertRole({ role }: AuthenticatedPrincipal, wanted: "user" | "admin"): void {
  if (wanted === "user" || role === "admin") return;
  throw new HubError("permission_denied", "This API key may not do that, wanted an admin key");
}
