import { Type } from "@sinclair/typebox";
import { MAX_CLIENT_ID_LENGTH } from "../../core/limits.ts";
import { HubError } from "../../core/error.ts";
import { lookupIdOf } from "../../policy/api_key.ts";
import { tokenFromHeaders } from "../../policy/authenticate.ts";
import { MAX_TOKEN_SECONDS } from "../../policy/browser_token.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import type { KeyRecord } from "../../policy/key_record.ts";
import {
  DEFAULT_TOKEN_SECONDS,
  makeBrowserToken,
  MIN_TOKEN_SECONDS,
} from "../../policy/make_browser_token.ts";
import type { Pepper } from "../../policy/pepper.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { Time } from "./schemas.ts";

/** What making browser tokens needs. */
export interface BrowserTokensOptions {
  /** Those that are configured now, by name. */
  agents(): Readonly<Record<string, unknown>>;
  policyOf(keyId: string): KeyPolicy;
  pepper: Pick<Pepper, "sign">;
  /** The key that has this place, as far as is known here. */
  findKey(lookupId: string): Promise<KeyRecord | null>;
}

/** Makes tokens with which pages use one chat. */
export function browserTokenRoutes(
  { agents, policyOf, pepper, findKey }: BrowserTokensOptions,
): Route[] {
  return [
    defineRoute({
      method: "POST",
      path: "/v1/browser-tokens",
      auth: "user",
      tag: "ai-sdk",
      summary: "Make a short-lived token with which a page uses one agent in one chat",
      description:
        "It opens that chat under /api/chat and nothing else, on the account of the key, and ends with it.",
      body: Type.Object({
        agent: Type.String({ minLength: 1, maxLength: 64, description: "The agent that answers" }),
        chatId: Type.String({
          minLength: 1,
          maxLength: MAX_CLIENT_ID_LENGTH,
          description: "The chat, as the page names it; it need not exist yet",
        }),
        ttlSeconds: Type.Optional(Type.Integer({
          minimum: MIN_TOKEN_SECONDS,
          maximum: MAX_TOKEN_SECONDS,
          description: `How long it holds. Default: ${DEFAULT_TOKEN_SECONDS}`,
        })),
      }, { additionalProperties: false }),
      responses: {
        201: {
          description: "The token, shown only now",
          schema: Type.Object({
            token: Type.String(),
            expiresAt: Time,
            agent: Type.String(),
            chatId: Type.String(),
          }),
        },
        404: { description: "There is no such agent" },
      },
      async handle({ request, body, clock }) {
        const { agent, chatId, ttlSeconds: seconds } = body;
        const lookupId = lookupIdOf(tokenFromHeaders((name) => request.header(name)) ?? "");
        const key = lookupId === null ? null : await findKey(lookupId);
        if (key === null) {
          throw new HubError("permission_denied", "Only an API key makes browser tokens");
        }
        const made = makeBrowserToken(key, { agent, chatId, seconds }, {
          policy: policyOf(key.keyId),
          agents: agents(),
          pepper,
          clock,
        });
        const expiresAt = new Date(made.expiresAt).toISOString();
        return jsonReply({ token: made.token, expiresAt, agent, chatId }, {
          status: 201,
          headers: { "cache-control": "no-store" },
        });
      },
    }),
  ];
}
