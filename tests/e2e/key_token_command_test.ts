import assert from "node:assert/strict";
import { chunksOf, userSays } from "../support/ai_sdk_page.ts";
import { refusalOf } from "../support/browser_tokens.ts";
import { command } from "../support/hub_process.ts";
import { withKey } from "../support/owned_things.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { withHub } from "../support/test_hub.ts";

Deno.test("loophub keys token makes browser tokens within the bounds of the API's", async (t) => {
  const upstream = await startScriptedUpstream();
  upstream.script(() => chatStream({ text: "Hello" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: { default: {}, brief: {} },
  };
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-key-token-" });
  try {
    await withHub(config, async (hub) => {
      const { databaseUrl: url, dataDir } = hub;
      await Deno.writeTextFile(
        `${folder}/loophub.json`,
        JSON.stringify({ ...config, database: { url } }),
      );
      const make = (...args: string[]) =>
        command(folder, ["keys", "token", ...args], { LOOPHUB_DATA_DIR: dataDir });
      const policy = { agents: ["brief", "gone"] };
      const { key, token } = await (await hub.call("/v1/admin/keys", {
        body: { name: "site", policy },
      })).json();
      // The first use of a key stores what the command signs with.
      await (await withKey(hub, token).call("/v1/models")).body?.cancel();

      await t.step("one that its chat takes", async () => {
        const made = await make(key.id, "--agent", "brief", "--chat", "c", "--ttl", "1m");
        assert.equal(made.code, 0, made.err);
        assert.match(made.out, /^lh_bt_[A-Za-z0-9_-]+\n$/);
        const [, until = ""] = /^holds until (\S+)/m.exec(made.err) ?? [];
        const inMs = Date.parse(until) - Date.now();
        assert.ok(inMs > 0 && inMs <= 60_000, made.err);
        const page = withKey(hub, made.out.trim());
        const say = (id: string) =>
          page.call("/api/chat", { body: { id, messages: [userSays("u", "Hi")] } });
        await chunksOf(await say("c"));
        assert.equal(await refusalOf(await say("other")), "404 not_found");
      });

      await t.step("none past the bounds, and none for what the key may not do", async () => {
        const right = [key.id, "--agent", "brief", "--chat", "c"];
        const nobody = `key_${"0".repeat(32)}`;
        const wrong: [number, RegExp, string[]][] = [
          [1, /30 to 3600 seconds, not for 7200/, [...right, "--ttl", "2h"]],
          [1, /30 to 3600 seconds, not for 29/, [...right, "--ttl", "29s"]],
          [1, /wanted a time such as/, [...right, "--ttl", "soon"]],
          [1, /1 to 200 characters, not 201/, [...right.slice(0, 4), "x".repeat(201)]],
          [1, /may not run the agent "default"/, [key.id, "--agent", "default", "--chat", "c"]],
          [1, /There is no agent "gone"/, [key.id, "--agent", "gone", "--chat", "c"]],
          [1, /There is no key/, [nobody, ...right.slice(1)]],
          [2, /one --agent and one --chat have to be given/, [key.id, "--agent", "brief"]],
          [2, /one --agent and one --chat have to be given/, [key.id, "--chat", "c"]],
          [2, /one --agent and one --chat have to be given/, [...right, "--agent", "default"]],
          [2, /these arguments do not fit/, ["site", ...right.slice(1)]],
        ];
        for (const [code, words, args] of wrong) {
          const { out, err, code: ended } = await make(...args);
          assert.equal(ended, code, `${args.join(" ")}: ${err}`);
          assert.match(err, words);
          assert.equal(out, "");
        }
        await (await hub.call(`/v1/admin/keys/${key.id}/revoke`, { method: "POST" })).json();
        const { code, err } = await make(...right);
        assert.equal(code, 1);
        assert.match(err, /revoked or has expired/);
      });
    });
  } finally {
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
