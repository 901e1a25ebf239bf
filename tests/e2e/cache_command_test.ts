import assert from "node:assert/strict";
import { ask, kept, outcomeOf } from "../support/cache_rig.ts";
import { command } from "../support/hub_process.ts";
import { chatCompletion, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, withHub } from "../support/test_hub.ts";

Deno.test("the command line shows the response cache and empties it, beside a hub that runs", async () => {
  const upstream = await startScriptedUpstream(() => chatCompletion({ text: "Hi" }));
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    cache: { lookupTimeoutMs: 5000 },
  };
  try {
    await withHub(config, async (hub) => {
      const folder = hub.dataDir;
      await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
      const cache = (...args: string[]) =>
        command(folder, ["cache", ...args], { DATABASE_URL: hub.databaseUrl });
      const asked = async () => {
        const answer = await ask(hub, "Hi");
        await answer.text();
        return outcomeOf(answer);
      };
      assert.equal(await asked(), "miss");
      await kept(hub, 1);
      assert.equal(await asked(), "hit");
      await eventually(async () =>
        (await hub.hub.start.db.read`select 1 from hub.usage`).length === 2 ? true : null
      );
      const shown = JSON.parse((await cache("--json")).out);
      assert.deepEqual([shown.entries, shown.hits, shown.calls], [1, 1, 1]);
      assert.match((await cache()).out, /^1 answers, 1 KiB, the oldest \d+s old\nlast 24 h: 1 req/);
      const other = await cache("clear", "--key", "key_00000000000070008000000000000002");
      assert.deepEqual([other.code, other.out], [0, "0 answers are dropped\n"]);
      assert.equal((await cache("clear")).out, "1 answers are dropped\n");
      assert.equal(await asked(), "miss");
      for (const wrong of [["drop"], ["clear", "--key", "x"], ["clear", "all"], ["--key", "x"]]) {
        assert.equal((await cache(...wrong)).code, 2);
      }
    });
  } finally {
    await upstream.stop();
  }
});
