import { Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { fromUuid, parseId, toUuid } from "../../core/id.ts";
import type { Principal } from "../../core/tool.ts";
import { visibleJson } from "../../core/visible_text.ts";
import type { McpConnection } from "../../mcp/connection.ts";
import { type ShownServer, showServer } from "../../mcp/shown_server.ts";
import type { ServerTrace } from "../../mcp/server_trace.ts";
import { changesOf, type OwnedBy } from "../../mcp/waiting_tools.ts";
import { DEFAULT_TENANT_ID } from "../../store/tenant.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { Time } from "./schemas.ts";

/** What the routes of MCP servers need. */
export interface AdminMcpOptions {
  connections(): readonly McpConnection[];
  /** What was noted of a server; undefined for one that is not traced. */
  traceOf(server: string): ServerTrace | undefined;
  /** All connections to a server, and whose they are. */
  ownersOf(server: string): OwnedBy[];
  /** Lets definitions count that wait. */
  approve(
    server: string,
    wish: { hashes: readonly string[]; owner: string | null; actor: Principal },
  ): Promise<void>;
  /** Monotonic milliseconds. */
  nowMs: () => number;
  redact(text: string): string;
}

const Nullable = (schema: ReturnType<typeof Type.String> | ReturnType<typeof Type.Integer>) =>
  Type.Union([schema, Type.Null()]);

const McpServerBody = Type.Object({
  object: Type.Literal("mcp_server"),
  name: Type.String(),
  prefix: Type.String(),
  transport: Type.String(),
  trust: Type.Boolean(),
  state: Type.String(),
  reason: Nullable(Type.String()),
  retry_in_ms: Nullable(Type.Integer()),
  tools: Type.Array(
    Type.Object({
      name: Type.String(),
      own_name: Type.String(),
      description: Type.String(),
    }),
  ),
  dropped: Type.Array(Type.Object({ name: Type.String(), reason: Type.String() })),
  waiting: Type.Array(Type.Object({
    owner: Nullable(Type.String()),
    name: Type.String(),
    hash: Type.String(),
    approved_hash: Nullable(Type.String()),
    changes: Type.Array(Type.Object({
      field: Type.String(),
      before: Type.Unknown(),
      after: Type.Unknown(),
    })),
  })),
  stderr: Type.String(),
});

const Hash = Type.String({ pattern: "^[0-9a-f]{64}$" });
const ApproveBody = Type.Object({
  hashes: Type.Array(Hash, {
    minItems: 1,
    maxItems: 2000,
    description: "Of the definitions in `waiting`, as they were shown",
  }),
  owner: Type.Optional(
    Type.String({ maxLength: 100, description: "The key whose connection lists them" }),
  ),
}, { additionalProperties: false });

const LogsBody = Type.Object({
  traced: Type.Boolean(),
  stderr: Type.String(),
  ...listSchema(Type.Object({
    number: Type.Integer(),
    at: Time,
    kind: Type.String(),
    text: Type.String(),
  })).properties,
});

const NameParams = Type.Object({ name: Type.String({ minLength: 1, maxLength: 200 }) });
const ONE = { 200: { description: "The server", schema: McpServerBody } };
const NOT_FOUND = { 404: { description: "There is no such server in the configuration" } };

/** MCP servers of the configuration, for admin keys. None is added or changed here: programs are the operator's file's alone. */
export function adminMcpRoutes(options: AdminMcpOptions): Route[] {
  const { connections, approve, ownersOf, traceOf, nowMs, redact } = options;
  const facts = { auth: "admin", tag: "admin" } as const;
  const find = (name: string, caller: Principal) => {
    assertOwnTenant(caller);
    const found = connections().find((connection) => connection.name === name);
    if (found !== undefined) return found;
    throw new HubError("not_found", `There is no MCP server ${JSON.stringify(name.slice(0, 64))}`);
  };
  const show = (connection: McpConnection) =>
    toBody(showServer(connection, { nowMs: nowMs(), redact }), ownersOf(connection.name));
  return [
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/mcp",
      summary: "List MCP servers: how they stand, and their tools",
      responses: {
        200: { description: "All", schema: listSchema(McpServerBody) },
      },
      handle({ principal }) {
        assertOwnTenant(principal);
        return jsonReply(listBody(connections().map(show)));
      },
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/mcp/:name",
      summary: "One MCP server",
      params: NameParams,
      responses: { ...ONE, ...NOT_FOUND },
      handle: ({ params, principal }) => jsonReply(show(find(params.name, principal))),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/mcp/:name/logs",
      summary: "What went between this replica and an MCP server that is traced",
      params: NameParams,
      query: Type.Object({
        after: Type.Optional(Type.Integer({ minimum: 0, description: "Number of an entry" })),
      }),
      responses: { 200: { description: "Oldest first", schema: LogsBody }, ...NOT_FOUND },
      handle({ params, query: { after = 0 }, principal }) {
        const { name, stderr } = find(params.name, principal);
        const trace = traceOf(name);
        const entries = (trace?.entries ?? []).filter(({ number }) => number > after);
        return jsonReply({
          traced: trace !== undefined,
          stderr: redact(stderr),
          ...listBody(entries.map(({ number, atMs, kind, text }) => (
            { number, at: new Date(atMs).toISOString(), kind, text }
          ))),
        });
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/mcp/:name/connect",
      summary: "Connect an MCP server that is not connected, and say how it stands",
      params: NameParams,
      responses: { ...ONE, ...NOT_FOUND },
      async handle({ params, principal }) {
        const connection = find(params.name, principal);
        await connection.connect();
        return jsonReply(show(connection));
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/mcp/:name/refresh",
      summary: "Read what an MCP server lists again, for all keys, and say how it stands",
      params: NameParams,
      responses: {
        ...ONE,
        ...NOT_FOUND,
        502: { description: "It could not be read: the lists from before stay" },
      },
      async handle({ params, principal }) {
        const connection = find(params.name, principal);
        const others = ownersOf(connection.name).map((owned) => owned.connection);
        const all = [...new Set([connection, ...others])];
        const failures = await Promise.all(all.map((one) => one.refresh()));
        // Where keys have connections of their own, one of them that fails says nothing of the others.
        if (failures.includes(null)) return jsonReply(show(connection));
        const [failure] = failures;
        throw new HubError(
          "upstream_error",
          `The lists of the MCP server ${connection.name} could not be read: ${
            redact(failure ?? "")
          }`,
        );
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/mcp/:name/approve",
      summary: "Let definitions of tools count that wait, by the hashes that were shown",
      params: NameParams,
      body: ApproveBody,
      responses: {
        ...ONE,
        ...NOT_FOUND,
        409: { description: "One of them does not wait, or has changed: nothing was approved" },
      },
      async handle({ params, body: { hashes, owner }, principal: actor }) {
        const connection = find(params.name, actor);
        const uuid = owner === undefined ? null : toUuid(parseId("key", owner));
        await approve(connection.name, { hashes, owner: uuid, actor });
        return jsonReply(show(connection));
      },
    }),
  ];
}

/** Servers of the configuration serve the whole hub, and what they wrote may be about any tenant. */
function assertOwnTenant({ tenantId }: Principal): void {
  if (tenantId === DEFAULT_TENANT_ID) return;
  throw new HubError(
    "permission_denied",
    "MCP servers serve all tenants, and are managed by keys of the hub's own tenant only",
  );
}

function toBody({ retryInMs, tools, ...server }: ShownServer, owners: readonly OwnedBy[]) {
  return {
    object: "mcp_server",
    ...server,
    retry_in_ms: retryInMs,
    waiting: owners.flatMap(({ owner, connection: { offered } }) =>
      offered.waiting.map((waiting) => ({
        owner: owner === null ? null : fromUuid("key", owner),
        name: waiting.name,
        hash: waiting.hash,
        approved_hash: waiting.approvedHash,
        changes: changesOf(waiting).map(({ field, before, after }) => (
          { field, before: visibleJson(before), after: visibleJson(after) }
        )),
      }))
    ),
    tools: tools.map(({ name, ownName, description }) => ({
      name,
      own_name: ownName,
      description,
    })),
  };
}
