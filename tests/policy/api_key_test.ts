import assert from "node:assert/strict";
import fc from "fast-check";
import { derivePepper, hashApiKey, lookupIdOf, makeApiKey } from "../../src/policy/api_key.ts";
import { property } from "../support/property.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));

Deno.test("keys have the documented form and find their row", () => {
  const seen = new Set<string>();
  for (let n = 0; n < 200; n++) {
    const { token, lookupId } = makeApiKey(randomBytes);
    assert.match(token, /^lh_[0-9a-f]{16}_[0-9A-Za-z]{43}[0-9A-Za-z]{6}$/);
    assert.equal(lookupIdOf(token), lookupId);
    seen.add(token);
  }
  assert.equal(seen.size, 200);
});

Deno.test("biased bytes are dropped, not folded", () => {
  let call = 0;
  const { token } = makeApiKey((length) => new Uint8Array(length).fill(++call === 2 ? 255 : 0));
  assert.match(token, /^lh_0{16}_0{43}/);
});

property(
  "a key with any character changed is no key",
  fc.tuple(fc.nat({ max: 68 }), fc.constantFrom(..."0aZ_ '-é")),
  ([place, char]) => {
    const { token } = makeApiKey(randomBytes);
    if (token[place] === char) return;
    assert.equal(lookupIdOf(token.slice(0, place) + char + token.slice(place + 1)), null);
  },
);

Deno.test("hashes depend on the whole token and on the master key", () => {
  const master = new Uint8Array(32).fill(1);
  const pepper = derivePepper(master);
  assert.equal(pepper.length, 32);
  assert.notDeepEqual(pepper, master);
  const hash = hashApiKey("lh_a", pepper);
  assert.equal(hash.length, 32);
  assert.deepEqual(hash, hashApiKey("lh_a", derivePepper(master)));
  assert.notDeepEqual(hash, hashApiKey("lh_b", pepper));
  assert.notDeepEqual(hash, hashApiKey("lh_a", derivePepper(new Uint8Array(32))));
});
