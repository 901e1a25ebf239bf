import assert from "node:assert/strict";
import fc from "fast-check";
import { toHubError } from "../../src/core/error.ts";
import { derivePepper, hashApiKey, isHashOf, makeApiKey } from "../../src/policy/api_key.ts";
import { createAuthenticate } from "../../src/policy/authenticate.ts";
import { isSignatureOf, signPayload } from "../../src/policy/browser_token.ts";
import { type KeyPolicy, NOTHING } from "../../src/policy/key_policy.ts";
import type { KeyRecord } from "../../src/policy/key_record.ts";
import { makeBrowserToken, type TokenWish } from "../../src/policy/make_browser_token.ts";
import { createRedactor } from "../../src/telemetry/redact.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const PEPPER = derivePepper(new Uint8Array(32).fill(3));
const KEY = makeApiKey(randomBytes);
const WISH: TokenWish = { agent: "support", chatId: "chat-1" };
const TAKEN = { browserTokens: true };

/** A hub's check of tokens, with one key that can be changed. */
function rig(
  facts: Partial<KeyRecord> = {},
  { known = true, policy = {} }: { known?: boolean; policy?: KeyPolicy } = {},
) {
  const clock = createFakeClock();
  const { token, lookupId } = KEY;
  const state = { record: null as KeyRecord | null, lookups: 0 };
  const change = (facts: Partial<KeyRecord>): KeyRecord =>
    state.record = {
      keyId: "key_1",
      tenantId: "tenant",
      name: "site",
      role: "user",
      lookupId,
      hash: hashApiKey(token, PEPPER),
      expiresAt: null,
      revokedAt: null,
      ...facts,
    };
  change(facts);
  // A new snapshot each time, as after a change.
  const snapshotOf = (record: KeyRecord | null) => ({
    byLookupId: new Map(record === null || !known ? [] : [[record.lookupId, record]]),
  });
  let seen = state.record;
  let snapshot = snapshotOf(seen);
  const authenticate = createAuthenticate({
    snapshot() {
      if (seen !== state.record) snapshot = snapshotOf(seen = state.record);
      return snapshot;
    },
    lookup(id) {
      state.lookups++;
      return Promise.resolve(state.record?.lookupId === id ? state.record : null);
    },
    isHashOf: (token, hash) => isHashOf(token, hash, PEPPER),
    isSignatureOf: (payload, signature) => isSignatureOf(payload, signature, PEPPER),
    clock,
  });
  const pepper = { sign: (payload: string) => signPayload(payload, PEPPER) };
  const make = (wish: Partial<TokenWish> = {}) =>
    makeBrowserToken(state.record ?? change({}), { ...WISH, ...wish }, {
      policy,
      agents: { support: {}, brief: {} },
      pepper,
      clock,
    });
  const outcome = async (token: string, options = TAKEN) => {
    try {
      await authenticate(token, options);
      return "ok";
    } catch (error) {
      const { status, clientCode } = toHubError(error);
      return `${status} ${clientCode}`;
    }
  };
  return { clock, state, change, authenticate, make, outcome };
}

Deno.test("a browser token lets one chat in, as its key's owner and never as an admin", async () => {
  const { authenticate, make } = rig({
    role: "admin",
    owner: "alice",
    tags: ["web"],
    sessions: "all",
    answers: "none",
  });
  const { token } = make();
  assert.deepEqual({ ...await authenticate(token, TAKEN) }, {
    tenantId: "tenant",
    keyId: "key_1",
    keyName: "site",
    role: "user",
    owner: "alice",
    tags: ["web"],
    sessions: "owner",
    answers: "none",
    scope: WISH,
  });
  const own = rig({ sessions: "own" });
  assert.equal((await own.authenticate(own.make().token, TAKEN)).sessions, "own");
});

Deno.test("a browser token is refused where a route does not accept one, also when it was let in elsewhere before", async () => {
  const { authenticate, make, outcome } = rig();
  const { token } = make();
  const refused = { code: "permission_denied", clientCode: "browser_token" };
  assert.throws(() => authenticate(token), refused);
  assert.equal(await outcome(token), "ok");
  assert.throws(() => authenticate(token), refused);
  assert.equal((await authenticate(KEY.token)).scope, undefined);
});

Deno.test("a browser token holds to the millisecond, and says that it expired", async () => {
  const { clock, make, outcome } = rig();
  const { token, expiresAt } = make({ seconds: 60 });
  assert.equal(expiresAt, clock.now() + 60_000);
  await clock.advance(59_999);
  assert.equal(await outcome(token), "ok");
  await clock.advance(1);
  assert.equal(await outcome(token), "401 token_expired");
});

Deno.test("a browser token ends with its key, and with the key's own token when that is rotated", async () => {
  const { clock, change, make, outcome } = rig();
  const { token } = make();
  assert.equal(await outcome(token), "ok");
  change({ revokedAt: clock.now() });
  assert.equal(await outcome(token), "401 invalid_api_key");
  change({ expiresAt: clock.now() + 1000 });
  assert.equal(await outcome(token), "ok");
  await clock.advance(1000);
  assert.equal(await outcome(token), "401 invalid_api_key");
  change({});
  assert.equal(await outcome(token), "ok");
  change({ lookupId: makeApiKey(randomBytes).lookupId });
  assert.equal(await outcome(token), "401 invalid_api_key");
});

Deno.test("a browser token never says that it outlives its key, and an ended key makes none", () => {
  const { clock, change, make } = rig();
  change({ expiresAt: clock.now() + 40_000 });
  assert.equal(make().expiresAt, clock.now() + 40_000);
  for (const ended of [{ revokedAt: clock.now() }, { expiresAt: clock.now() }]) {
    change(ended);
    assert.throws(() => make(), { code: "permission_denied" });
  }
});

Deno.test("how long a browser token holds, and its chat's id, have bounds at every entry point", () => {
  const { clock, make } = rig();
  assert.equal(make().expiresAt, clock.now() + 600_000);
  assert.equal(make({ seconds: 3600 }).expiresAt, clock.now() + 3_600_000);
  for (const seconds of [0, -1, 29, 3601, 1.5 * 60 + 0.1, NaN, Infinity]) {
    assert.throws(() => make({ seconds }), { code: "invalid_request", param: "ttlSeconds" });
  }
  for (const chatId of ["", "x".repeat(201)]) {
    assert.throws(() => make({ chatId }), { code: "invalid_request", param: "chatId" });
  }
});

Deno.test("a browser token is made only for a configured agent that the key may run", () => {
  const { make } = rig({}, { policy: { agents: ["brief", "gone"] } });
  assert.ok(make({ agent: "brief" }).token);
  assert.throws(() => make({ agent: "support" }), { code: "permission_denied", param: "agent" });
  assert.throws(() => make({ agent: "gone" }), { code: "not_found" });
  assert.throws(() => rig().make({ agent: "toString" }), { code: "not_found" });
  assert.throws(() => rig({}, { policy: NOTHING }).make(), { code: "permission_denied" });
});

Deno.test("a browser token of a replica whose clock is wrong holds for an hour and five minutes at most", async () => {
  const { clock, make, outcome } = rig();
  const late = rig();
  const { token } = make();
  await late.clock.advance(600_000);
  assert.equal(await late.outcome(token), "401 token_expired", "a clock that is fast");
  const early = rig();
  await early.clock.advance(300_000);
  assert.equal(await outcome(early.make({ seconds: 3600 }).token), "ok");
  await early.clock.advance(1);
  assert.equal(await outcome(early.make({ seconds: 3600 }).token), "401 invalid_api_key");
  await clock.advance(1);
  assert.equal(await outcome(early.make({ seconds: 3600 }).token), "ok");
});

const FORGED = rig();
const WHOLE = FORGED.make({ chatId: "böse \u0000 \ud800 chat" }).token;
const CHARACTERS = "ABCXYZabcxyz0189-_. =".split("");

property(
  "of a browser token no character may be another, none missing, none added",
  fc.record({
    at: fc.nat(WHOLE.length - 1),
    character: fc.constantFrom(...CHARACTERS),
    how: fc.constantFrom("change", "remove", "add"),
  }),
  async ({ at, character, how }) => {
    assert.equal(await FORGED.outcome(WHOLE), "ok");
    const rest = WHOLE.slice(how === "add" ? at : at + 1);
    const forged = WHOLE.slice(0, at) + (how === "remove" ? "" : character) + rest;
    if (forged !== WHOLE) assert.equal(await FORGED.outcome(forged), "401 invalid_api_key");
  },
);

Deno.test("a browser token is signed by the hub, for this use, and says nothing that its form does not have", async () => {
  const { outcome, clock, state } = rig();
  const payloadOf = (claims: unknown) =>
    new TextEncoder().encode(JSON.stringify(claims)).toBase64({
      alphabet: "base64url",
      omitPadding: true,
    });
  const signed = (payload: string) => `lh_bt_${payload}${signPayload(payload, PEPPER)}`;
  const right = [1, KEY.lookupId, "support", "chat-1", clock.now() + 1000];
  assert.equal(await outcome(signed(payloadOf(right))), "ok");
  const wrong: unknown[] = [
    [2, ...right.slice(1)],
    right.slice(0, 4),
    [...right, 1],
    [1, "../../etc/passwd", ...right.slice(2)],
    [...right.slice(0, 4), "later"],
    null,
  ];
  for (const claims of wrong) {
    assert.equal(await outcome(signed(payloadOf(claims))), "401 invalid_api_key");
  }
  assert.equal(await outcome(signed("not_base64_of_json")), "401 invalid_api_key");
  // The hash of an API key is made with the same pepper, and is no signature.
  const payload = payloadOf(right);
  const hash = hashApiKey(payload, PEPPER).toBase64({ alphabet: "base64url", omitPadding: true });
  assert.equal(await outcome(`lh_bt_${payload}${hash}`), "401 invalid_api_key");
  const other = signPayload(payload, derivePepper(new Uint8Array(32).fill(4)));
  assert.equal(await outcome(`lh_bt_${payload}${other}`), "401 invalid_api_key");
  assert.equal(await outcome(`lh_bt_${"A".repeat(100_000)}`), "401 invalid_api_key");
  assert.equal(state.lookups, 0, "the database is asked for none that was forged");
});

Deno.test("of many requests at once with a token of an unknown key one asks the database", async () => {
  const { state, make, outcome } = rig({}, { known: false });
  const tokens = Array.from({ length: 40 }, (_, n) => make({ chatId: `chat-${n}` }).token);
  const outcomes = await Promise.all(tokens.map((token) => outcome(token)));
  assert.deepEqual([...new Set(outcomes)], ["ok"]);
  assert.equal(state.lookups, 1);
});

Deno.test("a token for one chat never gets the principal of another, however many there are", async () => {
  const { authenticate, make } = rig();
  const made = Array.from({ length: 200 }, (_, n) => make({ chatId: `chat-${n}` }));
  for (const round of [0, 1]) {
    for (const [n, { token }] of made.entries()) {
      const { scope } = await authenticate(token, TAKEN);
      assert.equal(scope?.chatId, `chat-${n}`, `round ${round}`);
    }
  }
});

Deno.test("logs have no browser token", () => {
  const { redact } = createRedactor({ secrets: [] });
  const { token } = rig().make({ chatId: "\u00ff\u00fe".repeat(100) });
  const line = JSON.stringify({
    authorization: "x",
    url: `/?t=${token}`,
    text: `see ${token}, ok`,
  });
  const shown = redact(line);
  assert.ok(!shown.includes(token.slice(6, 40)), shown);
  assert.ok(!shown.includes(token.slice(-43)), shown);
});
