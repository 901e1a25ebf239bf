import assert from "node:assert/strict";
import fc from "fast-check";
import { HubError } from "../../src/core/error.ts";
import {
  derivePepper,
  hashApiKey,
  isHashOf,
  lookupIdOf,
  makeApiKey,
} from "../../src/policy/api_key.ts";
import {
  createAuthenticate,
  type KeySnapshot,
  tokenFromHeaders,
} from "../../src/policy/authenticate.ts";
import { isSignatureOf } from "../../src/policy/browser_token.ts";
import type { KeyRecord } from "../../src/policy/key_record.ts";
import { createFakeClock } from "../support/fake_clock.ts";
import { property } from "../support/property.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const pepper = derivePepper(new Uint8Array(32).fill(3));
const KEY = makeApiKey(randomBytes);

/** Another key under the same lookup id: only the hash can tell. */
const forgedLike = ({ lookupId }: typeof KEY) =>
  makeApiKey((length) => length === 8 ? Uint8Array.fromHex(lookupId) : randomBytes(length));

function recordOf(key: typeof KEY, facts: Partial<KeyRecord> = {}): KeyRecord {
  const { token, lookupId } = key;
  const hash = hashApiKey(token, pepper);
  return {
    keyId: "key_1",
    tenantId: "tenant",
    name: "laptop",
    role: "user",
    lookupId,
    hash,
    expiresAt: null,
    revokedAt: null,
    ...facts,
  };
}

const snapshotOf = (...records: KeyRecord[]): KeySnapshot => ({
  byLookupId: new Map(records.map((record) => [record.lookupId, record])),
});

function start(snapshot: KeySnapshot | null, lookup?: (id: string) => Promise<KeyRecord | null>) {
  const clock = createFakeClock();
  const state = { snapshot, lookups: 0, hashed: [] as number[] };
  const authenticate = createAuthenticate({
    snapshot: () => state.snapshot,
    lookup(id) {
      state.lookups++;
      return lookup === undefined ? Promise.resolve(null) : lookup(id);
    },
    isHashOf(token, hash) {
      state.hashed.push(hash.length);
      return isHashOf(token, hash, pepper);
    },
    isSignatureOf: (payload, signature) => isSignatureOf(payload, signature, pepper),
    clock,
  });
  const codeOf = async (token: string | null) => {
    try {
      await authenticate(token);
      return "ok";
    } catch (error) {
      assert.ok(error instanceof HubError);
      return error.code;
    }
  };
  return { clock, state, authenticate, codeOf };
}

Deno.test("a known key gives its principal at once and without its hash", () => {
  const { authenticate, state } = start(snapshotOf(recordOf(KEY)));
  const principal = authenticate(KEY.token);
  assert.deepEqual({ ...principal }, {
    tenantId: "tenant",
    keyId: "key_1",
    keyName: "laptop",
    role: "user",
  });
  assert.equal(authenticate(KEY.token), principal);
  assert.equal(state.lookups, 0);
});

Deno.test("no key, garbage, a wrong secret, expired and revoked keys are all refused alike", async () => {
  const expired = makeApiKey(randomBytes);
  const revoked = makeApiKey(randomBytes);
  const { codeOf, state } = start(snapshotOf(
    recordOf(KEY),
    recordOf(expired, { expiresAt: 1_799_999_999_999 }),
    recordOf(revoked, { revokedAt: 1 }),
  ));
  const forged = forgedLike(KEY);
  assert.equal(lookupIdOf(forged.token), KEY.lookupId);
  for (
    const token of [null, "", "lh_", "' OR '1'='1", forged.token, expired.token, revoked.token]
  ) {
    assert.equal(await codeOf(token), "invalid_api_key");
  }
  assert.equal(state.lookups, 0);
});

Deno.test("every key of the right form is refused after the same work and in the same words", async () => {
  const expired = makeApiKey(randomBytes);
  const revoked = makeApiKey(randomBytes);
  const elsewhere = makeApiKey(randomBytes);
  const unknown = makeApiKey(randomBytes);
  const { authenticate, state } = start(
    snapshotOf(
      recordOf(KEY),
      recordOf(expired, { expiresAt: 1 }),
      recordOf(revoked, { revokedAt: 1 }),
    ),
    (id) => Promise.resolve(id === elsewhere.lookupId ? recordOf(elsewhere) : null),
  );
  const guesses = {
    "a wrong secret": forgedLike(KEY),
    "a wrong secret for a key of the database": forgedLike(elsewhere),
    "an unknown id": unknown,
    "one that is known to be unknown": unknown,
    "another secret for that": forgedLike(unknown),
    "one that has expired": expired,
    "one that was revoked": revoked,
  };
  const words = new Set<string>();
  for (const [guess, { token }] of Object.entries(guesses)) {
    state.hashed = [];
    const refused = await Promise.try(authenticate, token).then(
      () => assert.fail(guess),
      (error) => error,
    );
    assert.ok(refused instanceof HubError);
    words.add(`${refused.code} ${refused.message} ${JSON.stringify(refused.details)}`);
    // One HMAC, and one comparison with as many bytes: see `isHashOf`.
    assert.deepEqual(state.hashed, [32], guess);
  }
  assert.equal(words.size, 1, [...words].join());
});

Deno.test("hashes of keys are compared in constant time only", async () => {
  const folder = new URL("../../src/policy/", import.meta.url);
  const compared: string[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const lines = (await Deno.readTextFile(new URL(name, folder))).split("\n");
    compared.push(...lines.filter((line) => /hash\b.*[=!]==|[=!]==.*hash\b|Equal\(/i.test(line)));
  }
  assert.deepEqual(compared.map((line) => line.trim()), [
    "return own.length === given.length && timingSafeEqual(own, given);",
  ]);
});

Deno.test("two tokens that share a long prefix are not one", async () => {
  const { codeOf } = start(snapshotOf(recordOf(KEY)));
  assert.equal(await codeOf(KEY.token), "ok");
  assert.ok(KEY.token.length > 64);
  const twin = KEY.token.slice(0, 64) + [...KEY.token.slice(64)].reverse().join("");
  if (twin !== KEY.token) assert.equal(await codeOf(twin), "invalid_api_key");
  assert.equal(await codeOf(KEY.token + "x"), "invalid_api_key");
});

Deno.test("a new snapshot ends trust at once; a key that expires ends in time", async () => {
  const { clock, state, codeOf } = start(snapshotOf(recordOf(KEY)));
  assert.equal(await codeOf(KEY.token), "ok");
  state.snapshot = snapshotOf(recordOf(KEY, { revokedAt: 5 }));
  assert.equal(await codeOf(KEY.token), "invalid_api_key");
  state.snapshot = snapshotOf(recordOf(KEY, { expiresAt: clock.now() + 1000 }));
  assert.equal(await codeOf(KEY.token), "ok");
  await clock.advance(1000);
  assert.equal(await codeOf(KEY.token), "invalid_api_key");
});

Deno.test("an unknown key is asked for once, and its absence is believed for a second", async () => {
  const { clock, state, codeOf } = start(snapshotOf());
  const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(KEY.token)));
  assert.deepEqual(new Set(codes), new Set(["invalid_api_key"]));
  assert.equal(state.lookups, 1);
  await clock.advance(999);
  await codeOf(KEY.token);
  assert.equal(state.lookups, 1);
  await clock.advance(1);
  await codeOf(KEY.token);
  assert.equal(state.lookups, 2);
});

Deno.test("a key made elsewhere a moment ago is read through, then trusted for 30 s", async () => {
  const { clock, state, codeOf } = start(null, () => Promise.resolve(recordOf(KEY)));
  assert.equal(await codeOf(KEY.token), "ok");
  assert.equal(await codeOf(KEY.token), "ok");
  assert.equal(state.lookups, 1);
  await clock.advance(30_000);
  assert.equal(await codeOf(KEY.token), "ok");
  assert.equal(state.lookups, 2);
});

Deno.test("a snapshot that comes during the lookup counts more than the row", async () => {
  const row = Promise.withResolvers<KeyRecord | null>();
  const { state, codeOf } = start(snapshotOf(), () => row.promise);
  const code = codeOf(KEY.token);
  state.snapshot = snapshotOf(recordOf(KEY, { revokedAt: 1 }));
  row.resolve(recordOf(KEY));
  assert.equal(await code, "invalid_api_key");
});

Deno.test("without a database known keys work and unknown ones get 503", async () => {
  const down = () => Promise.reject(new Error("connection refused"));
  const other = makeApiKey(randomBytes);
  const { codeOf } = start(snapshotOf(recordOf(KEY)), down);
  assert.equal(await codeOf(KEY.token), "ok");
  assert.equal(await codeOf(other.token), "database_unavailable");
  assert.equal(await codeOf("sk-nonsense"), "invalid_api_key");
});

Deno.test("guesses with a right checksum cannot take every connection of the database", async () => {
  const never = new Promise<null>(() => {});
  const { state, codeOf, authenticate } = start(snapshotOf(), () => never);
  for (let n = 0; n < 64; n++) authenticate(makeApiKey(randomBytes).token);
  assert.equal(await codeOf(makeApiKey(randomBytes).token), "overloaded");
  assert.equal(state.lookups, 64);
});

property("no text but the token itself passes", fc.string(), async (text) => {
  const { codeOf } = start(snapshotOf(recordOf(KEY)));
  assert.equal(await codeOf(text), "invalid_api_key");
  assert.equal(await codeOf(`lh_${KEY.lookupId}_${text}`), "invalid_api_key");
});

Deno.test("tokens come as bearer or x-api-key", () => {
  const from = (headers: Record<string, string>) =>
    tokenFromHeaders((name) => headers[name] ?? null);
  assert.equal(from({ authorization: "Bearer abc" }), "abc");
  assert.equal(from({ authorization: "bearer  abc " }), "abc");
  assert.equal(from({ "x-api-key": "abc" }), "abc");
  assert.equal(from({ authorization: "Bearer abc", "x-api-key": "def" }), "abc");
  assert.equal(from({ authorization: "Bearer " }), null);
  assert.equal(from({}), null);
  assert.throws(() => from({ authorization: "Basic abc" }), /unknown scheme/);
});
