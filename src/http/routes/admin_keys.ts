import { type Static, Type } from "@sinclair/typebox";
import { HubError } from "../../core/error.ts";
import { parseId } from "../../core/id.ts";
import type { JsonObject } from "../../core/json.ts";
import { type KeyPolicy, readPolicy, windowsOf } from "../../policy/key_policy.ts";
import type { KeyDesk } from "../../policy/manage_keys.ts";
import { listAudit } from "../../store/audit.ts";
import { readWindows } from "../../store/budgets.ts";
import type { Database } from "../../store/database.ts";
import { type KeyChange, listTenantKeys, readKey, type StoredKey } from "../../store/keys.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import {
  AuditBody,
  KeyBody,
  KeyChangeBody,
  KeyParams,
  KeyWithTokenBody,
  NewKeyBody,
  RotateBody,
  SpendBody,
} from "./admin_schemas.ts";
import { PageQuery } from "./schemas.ts";

/** What the admin routes need. */
export interface AdminKeysOptions {
  db: Database;
  desk: KeyDesk;
  now: () => number;
}

const DAY_SECONDS = 86_400;
const NOT_FOUND = { 404: { description: "The tenant has no such key" } };

/** Keys and what was done to them, for admin keys of their tenant. */
export function adminKeyRoutes({ db, desk, now }: AdminKeysOptions): Route[] {
  const show = (key: StoredKey) => toBody(key, now());
  const facts = { auth: "admin", tag: "admin" } as const;
  return [
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/keys",
      summary: "Make a key",
      body: NewKeyBody,
      responses: { 201: { description: "The key and its token", schema: KeyWithTokenBody } },
      async handle({ body, principal }) {
        const { name, role = "user" } = body;
        const made = await desk.create(principal, { name, role, ...changeOf(body) });
        return jsonReply({ key: show(made.key), token: made.token }, { status: 201 });
      },
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/keys",
      summary: "List keys, the oldest first",
      query: Type.Object(PageQuery),
      responses: {
        200: {
          description: "A page",
          schema: listSchema(KeyBody),
        },
      },
      async handle({ query: { limit = 50, after }, principal: { tenantId } }) {
        const from = after === undefined ? null : parseId("key", after);
        const page = await listTenantKeys(db, { tenantId, limit, after: from });
        return jsonReply(listBody(page.keys.map(show), page));
      },
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/keys/:id",
      summary: "One key, and what it has spent today, this month and in total",
      params: KeyParams,
      responses: {
        200: {
          description: "The key",
          schema: Type.Object({ key: KeyBody, spend: Type.Array(SpendBody) }),
        },
        ...NOT_FOUND,
      },
      async handle({ params, principal: { tenantId } }) {
        const keyId = parseId("key", params.id);
        const key = await readKey(db, { tenantId, keyId });
        if (key === null) throw new HubError("not_found", `There is no key ${keyId}`);
        const policy = readPolicy(key.policy) ?? {};
        const agents = [undefined, ...Object.keys(policy.agentBudgets ?? {})];
        const all = agents.flatMap((agent) => windowsOf(policy, { nowMs: now(), agent }));
        const ids = [...new Set(all.map(({ id }) => id))];
        return jsonReply({
          key: show(key),
          spend: await readWindows(db, { tenantId, keyId, ids }),
        });
      },
    }),
    defineRoute({
      ...facts,
      method: "PATCH",
      path: "/v1/admin/keys/:id",
      summary: "Change a key",
      description: "What is left out stays; a policy is replaced as a whole.",
      params: KeyParams,
      body: KeyChangeBody,
      responses: { 200: { description: "The key", schema: KeyBody }, ...NOT_FOUND },
      async handle({ params, body, principal }) {
        const name = body.name === undefined ? {} : { name: body.name };
        const change = { ...name, ...changeOf(body) };
        return jsonReply(show(await desk.change(principal, parseId("key", params.id), change)));
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/keys/:id/rotate",
      summary: "Give a key another token",
      description: "The old token holds for the grace period.",
      params: KeyParams,
      body: RotateBody,
      responses: {
        200: { description: "The key and its new token", schema: KeyWithTokenBody },
        ...NOT_FOUND,
      },
      async handle({ params, body: { graceSeconds = DAY_SECONDS }, principal }) {
        const keyId = parseId("key", params.id);
        const { key, token } = await desk.rotate(principal, keyId, graceSeconds * 1000);
        return jsonReply({ key: show(key), token });
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/keys/:id/revoke",
      summary: "Revoke a key for ever",
      params: KeyParams,
      responses: { 200: { description: "The key", schema: KeyBody }, ...NOT_FOUND },
      handle: async ({ params, principal }) =>
        jsonReply(show(await desk.revoke(principal, parseId("key", params.id)))),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/audit",
      summary: "What was done to keys, the newest first",
      query: Type.Object(PageQuery),
      responses: {
        200: {
          description: "A page",
          schema: listSchema(AuditBody),
        },
      },
      async handle({ query: { limit = 50, after }, principal: { tenantId } }) {
        const from = after === undefined ? null : parseId("aud", after);
        const { rows, nextCursor } = await listAudit(db, { tenantId, limit, after: from });
        const data = rows.map(({ actorKeyId: actor, at, ...row }): Static<typeof AuditBody> => ({
          ...row,
          actor,
          at: new Date(at).toISOString(),
        }));
        return jsonReply(listBody(data, { nextCursor }));
      },
    }),
  ];
}

/** What of a body goes into the key's row as it is. */
function changeOf(
  { owner, tags, expiresAt, policy }: Omit<Static<typeof KeyChangeBody>, "name">,
): KeyChange {
  return {
    ...(owner === undefined ? {} : { owner }),
    ...(tags === undefined ? {} : { tags }),
    ...(expiresAt === undefined
      ? {}
      : { expiresAt: expiresAt === null ? null : Date.parse(expiresAt) }),
    ...(policy === undefined ? {} : { policy: policy as JsonObject }),
  };
}

/** Field by field, so that nothing of a row's secrets can slip in. */
function toBody(key: StoredKey, nowMs: number): Static<typeof KeyBody> {
  const { former, revokedAt, expiresAt } = key;
  const isExpired = expiresAt !== null && expiresAt <= nowMs;
  return {
    id: key.keyId,
    name: key.name,
    role: key.role,
    state: revokedAt !== null ? "revoked" : isExpired ? "expired" : "valid",
    owner: key.owner,
    tags: [...key.tags],
    policy: key.policy as KeyPolicy,
    createdAt: new Date(key.createdAt).toISOString(),
    expiresAt: timeOf(expiresAt),
    revokedAt: timeOf(revokedAt),
    formerTokenUntil: former !== null && former.until > nowMs ? timeOf(former.until) : null,
  };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
