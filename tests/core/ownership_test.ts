import assert from "node:assert/strict";
import { accessOf, belongingOf, mayRemember, reaches } from "../../src/core/ownership.ts";

const key = { tenantId: "t", keyId: "key_a" };

Deno.test("accessOf: an admin key reaches all, whatever its policy says of sessions", () => {
  assert.equal(accessOf({ ...key, role: "admin", sessions: "own" }).sessions, "all");
  assert.equal(accessOf({ ...key, role: "user" }).sessions, "owner");
});

Deno.test("reaches: a row that names neither an owner nor a key is reached by all-reaching keys only", () => {
  const row = { keyId: null, owner: null };
  for (const sessions of ["own", "owner"] as const) {
    assert.equal(reaches({ ...key, owner: "alice", sessions }, row), false);
  }
  assert.equal(reaches({ ...key, sessions: "all" }, row), true);
});

Deno.test("belongingOf: with sessions: own nothing is made for the owner's other keys", () => {
  const own = { ...key, owner: "alice", sessions: "own" as const };
  assert.deepEqual(belongingOf(own), { keyId: "key_a", owner: null });
  const sibling = { ...key, keyId: "key_b", owner: "alice" };
  assert.equal(reaches(sibling, belongingOf(own)), false);
});

Deno.test("mayRemember: later runs of a key are approved by keys of its owner", () => {
  const session = { keyId: "key_a", owner: "alice" };
  const of = (keyId: string | null, owner: string | null) => ({
    session,
    runKey: { keyId, owner },
  });
  const alice = { ...key, owner: "alice" };
  assert.equal(mayRemember(alice, of("key_a", null)), true);
  assert.equal(mayRemember(alice, of("key_b", "alice")), true);
  assert.equal(mayRemember({ ...alice, sessions: "own" }, of("key_b", "alice")), false);
  assert.equal(mayRemember(alice, of("key_b", "bob")), false);
  assert.equal(mayRemember(key, of("key_b", null)), false);
  assert.equal(mayRemember(key, of(null, null)), false);
  assert.equal(mayRemember({ ...key, sessions: "all" }, of("key_b", "bob")), true);
});
