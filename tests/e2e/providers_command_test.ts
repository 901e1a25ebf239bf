import assert from "node:assert/strict";
import { command, startHubProcess } from "../support/hub_process.ts";
import { takeKeys } from "../support/providers_rig.ts";
import { startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

const FIRST = "sk-command-line-000001";
const SECOND = "sk-command-line-000002";

Deno.test("loophub providers works beside a running hub", async () => {
  const upstream = await startScriptedUpstream();
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-providers-" });
  await Deno.chmod(folder, 0o755);
  const hub = await startHubProcess(folder, { OPENAI_API_KEY: "sk-of-nobody-at-all" });
  const said: string[] = [];
  const run = async (args: string[], env: Record<string, string> = {}, input = "") => {
    const done = await command(folder, ["providers", ...args], env, input);
    said.push(done.out, done.err);
    return done;
  };
  const chat = async () => {
    const answer = await fetch(`${hub.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${hub.key()}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "db/m", messages: [{ role: "user", content: "Hi" }] }),
    });
    const value = await answer.json();
    return answer.status === 200 ? value.choices[0].message.content : answer.status;
  };
  const comes = (wanted: unknown) => eventually(async () => await chat() === wanted || null);
  try {
    takeKeys(upstream, FIRST, SECOND);
    const args = ["add", "db", "--base-url", upstream.url, "--model", "m", "--key-env", "MY_KEY"];
    const added = await run(args, { MY_KEY: FIRST });
    assert.equal(added.code, 0, added.err);
    assert.match(added.out, /^cli_[0-9a-f]{32} {2}db {2}openai-compatible {2}http/);
    await comes("by 000001");
    assert.equal((await run(args, { MY_KEY: FIRST })).code, 1, "the name is taken");
    const rotated = await run(["rotate", "db", "--key-stdin"], {}, `${SECOND}\n`);
    assert.equal(rotated.code, 0, rotated.err);
    await comes("by 000002");
    assert.match((await run(["list"])).out, /db .*key under [0-9a-f]{16}/);
    assert.match((await run(["reseal"])).out, /^0 secrets are sealed anew .*; 0 are not/);
    assert.equal((await run(["remove", "db"])).code, 0);
    await comes(404);
    for (const wrong of [[], ["add"], ["rotate", "db"], ["list", "x"], ["add", "a", "b"]]) {
      assert.equal((await run(wrong)).code, 2, wrong.join(" "));
    }
    for (const wrong of [["remove", "db"], ["add", "x"], ["add", "y", "--key-env", "NONE"]]) {
      assert.equal((await run(wrong)).code, 1, wrong.join(" "));
    }
    for (const text of [...said, hub.err(), hub.out()]) assert.doesNotMatch(text, /sk-command/);
  } finally {
    await hub.end("SIGINT");
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
