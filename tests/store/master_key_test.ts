import assert from "node:assert/strict";
import { loadMasterKey } from "../../src/store/master_key.ts";

const randomBytes = (length: number) => crypto.getRandomValues(new Uint8Array(length));
const HEX = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

async function withFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "loophub-master-key-" });
  try {
    await body(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const load = (dataDir: string, given?: string) => loadMasterKey({ given, dataDir, randomBytes });

Deno.test("the first start makes the key, readable by its owner only; the next ones keep it", () =>
  withFolder(async (folder) => {
    const dataDir = `${folder}/not/yet/there`;
    const first = await load(dataDir);
    assert.equal(first.bytes.length, 32);
    assert.match(first.id, /^[0-9a-f]{16}$/);
    const path = `${dataDir}/master.key`;
    assert.equal(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
    const text = await Deno.readTextFile(path);
    assert.equal(text, `${first.bytes.toHex()}\n`);
    assert.deepEqual(await load(dataDir), first);
    assert.equal(await Deno.readTextFile(path), text);
    await withFolder(async (other) => assert.notEqual((await load(other)).id, first.id));
  }));

Deno.test("a given key is taken, named by its hash, and no file made", () =>
  withFolder(async (folder) => {
    const key = await load(folder, ` ${HEX.toUpperCase()}\n`);
    assert.equal(key.bytes.toHex(), HEX);
    // First 16 digits of SHA-256 over the 32 bytes.
    assert.equal(key.id, "4773d12e2371bb93");
    assert.deepEqual([...Deno.readDirSync(folder)], []);
  }));

Deno.test("a key of another form is refused, and its text is not repeated", () =>
  withFolder(async (folder) => {
    for (
      const given of ["", "secret-passphrase", HEX.slice(1), `${HEX}00`, HEX.replace("0", "g")]
    ) {
      await assert.rejects(load(folder, given), (error: Error & { code: string }) => {
        assert.equal(error.code, "invalid_configuration");
        assert.match(error.message, /64 hex digits/);
        if (given !== "") assert.ok(!error.message.includes(given));
        return true;
      });
    }
    await Deno.writeTextFile(`${folder}/master.key`, "somebody's notes\n");
    await assert.rejects(load(folder), { code: "invalid_configuration" });
    assert.equal(await Deno.readTextFile(`${folder}/master.key`), "somebody's notes\n");
  }));

Deno.test("hubs that start at once on a new folder get the same key", async () => {
  for (let round = 0; round < 20; round++) {
    await withFolder(async (folder) => {
      const keys = await Promise.all(Array.from({ length: 8 }, () => load(folder)));
      assert.equal(new Set(keys.map((key) => key.id)).size, 1);
      assert.deepEqual(await load(folder), keys[0]);
    });
  }
});

Deno.test("a start that died before it wrote the key does not block the next one", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/master.key`, "", { mode: 0o600 });
    const key = await load(folder);
    assert.deepEqual(await load(folder), key);
  }));

Deno.test("a key file that may only be read is good enough", () =>
  withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/master.key`, HEX, { mode: 0o400 });
    assert.equal((await load(folder)).bytes.toHex(), HEX);
    assert.equal(((await Deno.stat(`${folder}/master.key`)).mode ?? 0) & 0o777, 0o400);
  }));
