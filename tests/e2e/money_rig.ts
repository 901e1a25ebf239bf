import assert from "node:assert/strict";
import type postgres from "postgres";
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

/** Looks again and again whether what a budget has spent and reserved stays within its cap, until told to end. */
export function sampleBudgets(sql: postgres.Sql, capMicros: number) {
  let done = false;
  const sampling = (async () => {
    let samples = 0;
    let most = 0;
    while (!done) {
      const rows = await sql`
        select b.window_id, b.spent_micros::float8 as spent, b.reserved_micros::float8 as reserved,
          (select coalesce(sum(r.amount_micros), 0)::float8 from hub.reservations r
            where r.settled_at is null and r.released_at is null) as live,
          (select count(*)::int from hub.reservations r where r.settled_at is null and r.released_at is null
            and r.lease_until < now() - interval '30 seconds') as overdue
        from hub.budget_windows b`;
      for (const { spent, reserved, live, overdue, window_id: id } of rows) {
        assert.ok(spent + reserved <= capMicros, `${id}: ${spent} spent, ${reserved} reserved`);
        assert.equal(reserved, live, String(id));
        assert.equal(overdue, 0);
        most = Math.max(most, spent + reserved);
      }
      samples++;
    }
    return { samples, most };
  })();
  // Told by `end`, which comes later.
  sampling.catch(() => {});
  return {
    /** How often was looked, and the most that was taken. Throws what was found wrong. */
    end(): Promise<{ samples: number; most: number }> {
      done = true;
      return sampling;
    },
  };
}
