import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../src/core/json.ts";
import type { Usage } from "../../src/core/usage.ts";
import {
  chatCompletion,
  type ScriptedUpstream,
  startScriptedUpstream,
} from "../support/scripted_upstream.ts";
import { type TestConfig, type TestHub, withHub } from "../support/test_hub.ts";

/** A million tokens in cost a dollar, out two: so many micros a token. */
export const PRICED = { inputPerMillion: 1, outputPerMillion: 2 };

/** A hub with a priced model `up/m`, an unpriced one `up/free`, and the keys that tests make. */
export interface MoneyRig {
  hub: TestHub & { dataDir: string };
  upstream: ScriptedUpstream;
  makeKey(policy: JsonObject, more?: JsonObject): Promise<{ id: string; token: string }>;
  /** A completion with a key of its own. */
  ask(
    token: string,
    body?: JsonObject,
    more?: { signal?: AbortSignal; hub?: TestHub },
  ): Promise<Response>;
  /** The admin API with the first key. */
  admin(path: string, options?: { method?: string; body?: Json }): Promise<JsonObject>;
}

export const MONEY_CONFIG = (baseUrl: string): TestConfig => ({
  providers: {
    up: {
      baseUrl,
      apiKey: "sk-up",
      maxRetries: 0,
      models: { m: { pricing: PRICED }, free: {} },
    },
  },
  defaultModel: "up/m",
});

/** An answer that used so much. */
export const used = (usage: Partial<Usage>) => chatCompletion({ text: "hello", usage });

export async function withMoney(
  config: TestConfig,
  body: (rig: MoneyRig) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream(used({ promptTokens: 100, completionTokens: 50 }));
  try {
    await withHub({ ...MONEY_CONFIG(upstream.url), ...config }, async (hub) => {
      const admin: MoneyRig["admin"] = async (path, options) => {
        const answer = await hub.call(`/v1/admin/${path}`, options);
        const value = await answer.json();
        assert.ok(answer.ok, JSON.stringify(value));
        return value;
      };
      await body({
        hub,
        upstream,
        admin,
        async makeKey(policy, more = {}) {
          const made = await admin("keys", { body: { name: "k", policy, ...more } });
          return { id: String((made["key"] as JsonObject)["id"]), token: String(made["token"]) };
        },
        ask: (token, more = {}, { signal, hub: at = hub } = {}) =>
          at.call("/v1/chat/completions", {
            headers: { authorization: `Bearer ${token}` },
            body: {
              model: "up/m",
              max_tokens: 50,
              messages: [{ role: "user", content: "Hi" }],
              ...more,
            },
            ...(signal === undefined ? {} : { signal }),
          }),
      });
    });
  } finally {
    await upstream.stop();
  }
}
