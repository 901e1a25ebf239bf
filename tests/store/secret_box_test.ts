import assert from "node:assert/strict";
import fc from "fast-check";
import type { MasterKey } from "../../src/store/master_key.ts";
import { openSecret, type SealedSecret, sealSecret } from "../../src/store/secret_box.ts";
import { property } from "../support/property.ts";

const keyOf = (fill: number, id: string): MasterKey => ({
  bytes: new Uint8Array(32).fill(fill),
  id,
});
const key = keyOf(7, "key-a");
const place = { tenantId: "t1", id: "cli_1", field: "api_key" };
const REFUSED = {
  code: "invalid_configuration",
  message: "A stored secret is not what was sealed",
};

property("a sealed secret opens as it was", fc.string({ unit: "grapheme" }), async (secret) => {
  const sealed = await sealSecret(secret, { key, place });
  assert.equal(await openSecret(sealed, { key, place }), secret);
});

Deno.test("a box is a 96-bit nonce, the ciphertext and its 128-bit tag; no two are alike", async () => {
  const secret = "sk-live-0123456789";
  const a = await sealSecret(secret, { key, place });
  const b = await sealSecret(secret, { key, place });
  assert.equal(a.masterKeyId, key.id);
  assert.equal(a.nonce.length, 12);
  assert.equal(a.ciphertext.length, secret.length + 16);
  assert.notDeepEqual(a.nonce, b.nonce);
  assert.notDeepEqual(a.ciphertext, b.ciphertext);
  assert.ok(!new TextDecoder().decode(a.ciphertext).includes("sk-live"));
});

Deno.test("any changed, missing or added byte is refused", async () => {
  const sealed = await sealSecret("secret", { key, place });
  const flipped = (bytes: Uint8Array<ArrayBuffer>, at: number) =>
    bytes.map((byte, index) => index === at ? byte ^ 1 : byte);
  const tampered: SealedSecret[] = [
    ...sealed.ciphertext.keys().map((at) => ({
      ...sealed,
      ciphertext: flipped(sealed.ciphertext, at),
    })),
    ...sealed.nonce.keys().map((at) => ({ ...sealed, nonce: flipped(sealed.nonce, at) })),
    { ...sealed, ciphertext: sealed.ciphertext.slice(0, -1) },
    { ...sealed, ciphertext: new Uint8Array([...sealed.ciphertext, 0]) },
    { ...sealed, ciphertext: new Uint8Array() },
    { ...sealed, nonce: new Uint8Array() },
  ];
  for (const box of tampered) await assert.rejects(openSecret(box, { key, place }), REFUSED);
});

Deno.test("it opens only at its place: tenant, id and field are bound", async () => {
  const sealed = await sealSecret("secret", { key, place });
  const others = [
    { ...place, tenantId: "t2" },
    { ...place, id: "cli_2" },
    { ...place, field: "api_key2" },
    // The same letters cut differently.
    { tenantId: "t1c", id: "li_1", field: "api_key" },
    { tenantId: 't1","cli_1', id: "api_key", field: "" },
  ];
  for (const other of others) {
    await assert.rejects(openSecret(sealed, { key, place: other }), REFUSED);
  }
});

Deno.test("another master key is named; a forged name does not help it", async () => {
  const sealed = await sealSecret("secret", { key, place });
  const other = keyOf(8, "key-b");
  await assert.rejects(openSecret(sealed, { key: other, place }), {
    code: "invalid_configuration",
    message: "A secret was sealed with master key key-a, but the hub has key-b",
  });
  const forged = { ...sealed, masterKeyId: other.id };
  await assert.rejects(openSecret(forged, { key: other, place }), REFUSED);
});
