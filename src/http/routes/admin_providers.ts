import { type Static, Type } from "@sinclair/typebox";
import type { LoadedProvider } from "../../config/complete_providers.ts";
import { parseId } from "../../core/id.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ProviderDesk } from "../../policy/manage_providers.ts";
import type { ShownProvider } from "../../policy/shown_provider.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { KeyParams, ProviderBody, ProviderSettings, RotateProviderBody } from "./admin_schemas.ts";

/** What the routes of providers need. */
export interface AdminProvidersOptions {
  desk: ProviderDesk;
  /** The providers of the configuration file, by name. */
  configured: () => Readonly<Record<string, LoadedProvider>>;
}

const NOT_FOUND = { 404: { description: "There is no such provider in the database" } };
const CONFLICT = { 409: { description: "It was changed meanwhile; nothing was done" } };
const DONE = { 200: { description: "The provider", schema: ProviderBody } };
const MAX_BODY_BYTES = 256 * 1024;

/** Providers kept in the database, for admin keys. No answer holds a secret. */
export function adminProviderRoutes({ desk, configured }: AdminProvidersOptions): Route[] {
  const facts = { auth: "admin", tag: "admin", maxBodyBytes: MAX_BODY_BYTES } as const;
  const reply = async (shown: Promise<ShownProvider>, status = 200) =>
    jsonReply(toBody(await shown), { status });
  return [
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/providers",
      summary: "Add a provider",
      description: "`name` and the settings that `providers.<name>` has in the configuration.",
      body: ProviderSettings,
      responses: {
        201: { description: "The provider", schema: ProviderBody },
        409: { description: "There is one of this name in the database" },
      },
      handle({ body, principal }) {
        const { name, ...settings } = body as JsonObject;
        return reply(desk.create(principal, typeof name === "string" ? name : "", settings), 201);
      },
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/providers",
      summary: "List providers: the database's, and those of the configuration",
      responses: {
        200: { description: "All", schema: listSchema(ProviderBody) },
      },
      async handle({ principal }) {
        const kept = await desk.list(principal);
        const data = [
          ...kept.map(toBody),
          ...Object.entries(configured()).map(([name, provider]) =>
            toConfigured(name, provider, kept.every((other) => other.name !== name))
          ),
        ];
        return jsonReply(listBody(data));
      },
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/admin/providers/:id",
      summary: "One provider of the database",
      params: KeyParams,
      responses: { ...DONE, ...NOT_FOUND },
      handle: ({ params, principal }) => reply(desk.read(principal, parseId("cli", params.id))),
    }),
    defineRoute({
      ...facts,
      method: "PATCH",
      path: "/v1/admin/providers/:id",
      summary: "Change a provider",
      description:
        "What is left out stays, null takes a setting away. A key that is given holds at once, and alone. With another address, secrets must be given again.",
      params: KeyParams,
      body: ProviderSettings,
      responses: { ...DONE, ...NOT_FOUND, ...CONFLICT },
      handle: ({ params, body, principal }) =>
        reply(desk.change(principal, parseId("cli", params.id), body as JsonObject)),
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/providers/:id/rotate",
      summary: "Give a provider another key",
      description: "The key that it has holds until the provider has taken the new one.",
      params: KeyParams,
      body: RotateProviderBody,
      responses: { ...DONE, ...NOT_FOUND, ...CONFLICT },
      handle: ({ params, body, principal }) =>
        reply(desk.rotate(principal, parseId("cli", params.id), body.apiKey)),
    }),
    defineRoute({
      ...facts,
      method: "DELETE",
      path: "/v1/admin/providers/:id",
      summary: "Remove a provider with its secrets",
      params: KeyParams,
      responses: { 204: { description: "It is gone" }, ...NOT_FOUND },
      async handle({ params, principal }) {
        await desk.remove(principal, parseId("cli", params.id));
        return new Response(null, { status: 204 });
      },
    }),
    defineRoute({
      ...facts,
      method: "POST",
      path: "/v1/admin/secrets/reseal",
      summary: "Encrypt all secrets with the newest master key",
      responses: {
        200: {
          description: "How many were, and how many no master key of this hub can open",
          schema: Type.Object({
            masterKeyId: Type.String(),
            resealed: Type.Integer(),
            left: Type.Integer(),
          }),
        },
      },
      handle: async ({ principal }) => jsonReply(await desk.reseal(principal)),
    }),
  ];
}

function toBody(
  { key, createdAt, updatedAt, ...shown }: ShownProvider,
): Static<typeof ProviderBody> {
  return {
    ...shown,
    source: "database",
    isUsed: shown.problem === null,
    key: key === null ? null : { ...key, formerUntil: timeOf(key.formerUntil) },
    createdAt: timeOf(createdAt),
    updatedAt: timeOf(updatedAt),
  };
}

/** Field by field, so that no key can slip in. */
function toConfigured(
  name: string,
  { kind, baseUrl, headers = {}, models }: LoadedProvider,
  isUsed: boolean,
): Static<typeof ProviderBody> {
  return {
    id: null,
    name,
    kind,
    source: "configuration",
    isUsed,
    baseUrl: baseUrl ?? null,
    settings: models === undefined ? {} : { models },
    headers: Object.keys(headers),
    key: null,
    problem: null,
    createdAt: null,
    updatedAt: null,
  };
}

function timeOf(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
