import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import { withKey } from "./owned_things.ts";
import type { TestHub } from "./test_hub.ts";

/** A hub as a page with a browser token calls it. */
export interface TokenHub extends TestHub {
  expiresAt: string;
}

/** Makes a token for a chat with the hub's key. */
export async function makeToken(hub: TestHub, wish: JsonObject): Promise<TokenHub> {
  const made = await hub.call("/v1/browser-tokens", { body: { agent: "default", ...wish } });
  const { token, expiresAt, ...rest } = await made.json();
  assert.equal(made.status, 201, JSON.stringify(rest));
  assert.equal(made.headers.get("cache-control"), "no-store");
  return { ...withKey(hub, token), expiresAt };
}

/** Status and code of an answer that is an error, in any of its shapes. */
export async function refusalOf(answer: Response): Promise<string> {
  const text = await answer.text();
  const code = answer.headers.get("x-loophub-error-code") ?? JSON.parse(text).error.code;
  return `${answer.status} ${code}`;
}
