import assert from "node:assert/strict";
import { introduce, type Introduction } from "../../src/cli/introduce.ts";

const KEY = "lh_canary-first-key";
const PASSWORD = "canary-password";
const base: Introduction = {
  url: "http://127.0.0.1:4141",
  databaseUrl: `postgres://loophub:${PASSWORD}@127.0.0.1:5432/loophub`,
  isEmbedded: true,
  dataDir: "/nowhere",
  models: ["demo/talk"],
  key: null,
};

async function printed(change: Partial<Introduction>, isTerminal: boolean): Promise<string> {
  let text = "";
  await introduce({ ...base, ...change }, { isTerminal, print: (more) => void (text += more) });
  return text;
}

Deno.test("introduce: the database password is printed on a terminal for the embedded Postgres only", async () => {
  assert.ok((await printed({}, true)).includes(PASSWORD));
  for (const [isEmbedded, isTerminal] of [[true, false], [false, true], [false, false]] as const) {
    const text = await printed({ isEmbedded }, isTerminal);
    assert.ok(!text.includes(PASSWORD), text);
    assert.match(text, /psql {6}postgres:\/\/loophub:\*\*\*@127\.0\.0\.1:5432\/loophub/);
  }
});

Deno.test("introduce: a password among the parameters of the URL is not printed", async () => {
  const databaseUrl = `postgres://db.example/x?user=a&password=${PASSWORD}`;
  for (const isTerminal of [true, false]) {
    const text = await printed({ isEmbedded: false, databaseUrl }, isTerminal);
    assert.ok(!text.includes(PASSWORD), text);
  }
});

Deno.test("introduce: the first key is printed on a terminal only, else it goes to a file of mode 0600", async () => {
  const dataDir = await Deno.makeTempDir({ prefix: "loophub it's " });
  const file = `${dataDir}/first-key`;
  try {
    assert.ok((await printed({ key: KEY, dataDir }, true)).includes(`OPENAI_API_KEY=${KEY}`));
    await assert.rejects(Deno.stat(file));
    await Deno.writeTextFile(file, "of an earlier database", { mode: 0o644 });
    const text = await printed({ key: KEY, dataDir }, false);
    assert.ok(!text.includes(KEY), text);
    assert.ok(text.includes(`Your key is in ${file}`));
    assert.equal(((await Deno.stat(file)).mode ?? 0) & 0o777, 0o600);
    assert.equal(await Deno.readTextFile(file), `${KEY}\n`);
    assert.deepEqual([...Deno.readDirSync(dataDir)].map(({ name }) => name), ["first-key"]);
    const command = `${/^export .*$/m.exec(text)?.[0]}; printf %s "$OPENAI_API_KEY"`;
    const { stdout } = await new Deno.Command("sh", { args: ["-c", command] }).output();
    assert.equal(new TextDecoder().decode(stdout), KEY);
  } finally {
    await Deno.remove(dataDir, { recursive: true });
  }
});
