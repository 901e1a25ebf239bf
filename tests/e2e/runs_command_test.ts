import assert from "node:assert/strict";
import { command, startCommand, startHubProcess } from "../support/hub_process.ts";
import { startTestPostgres } from "../support/postgres.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, startTestHub } from "../support/test_hub.ts";

/** Longer than a busy machine needs to renew it. */
const LEASE_MS = 15_000;

Deno.test("runs are listed and followed from the command line", async (t) => {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-runs-" });
  const config = {
    server: { port: 0 },
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    runs: { leaseMs: LEASE_MS },
  };
  const env = { DATABASE_URL: postgres.url };
  const dataDir = `${folder}/data`;
  const runs = (...args: string[]) => command(folder, ["runs", ...args], env);
  const listed = async (...args: string[]) =>
    (await runs("--json", ...args)).out.trim().split("\n").map((line) => JSON.parse(line));
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  try {
    const first = await startHubProcess(folder, env);
    try {
      const key = await eventually(() => Promise.resolve(first.key()));
      const post = async (path: string, body: unknown) => {
        const answer = await fetch(first.url + path, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        });
        return answer;
      };
      const newSession = async () => (await (await post("/v1/sessions", {})).json()).id;

      await t.step("a run that is over", async () => {
        upstream.script(chatStream({ text: "All done" }));
        const answer = await post(`/v1/sessions/${await newSession()}/messages`, { text: "Go" });
        await answer.text();
        const [run] = await listed();
        assert.deepEqual([run.status, run.owner, run.epoch, run.step], ["completed", null, 1, 0]);
        const watched = await runs("watch", run.runId);
        assert.deepEqual([watched.code, watched.out], [0, "All done\n"]);
        const lines = (await runs("watch", run.runId, "--json")).out.trim().split("\n");
        const events = lines.map((line) => JSON.parse(line));
        assert.deepEqual(events.map(({ seq }) => seq), events.map((_, index) => index + 1));
        assert.equal(events.at(-1).type, "finish");
      });

      upstream.script(chatStream({ text: "One two three", endAfter: 3, end: "stall" }));
      const answer = await post(`/v1/sessions/${await newSession()}/messages`, { text: "Go" });
      const runId = answer.headers.get("x-loophub-run") ?? assert.fail("no run");

      await t.step("a run under way: its owner, its lease, a table", async () => {
        const [run, done] = await listed();
        assert.deepEqual([run.runId, run.status, run.epoch], [runId, "running", 1]);
        assert.ok(run.owner !== null && run.leaseMs > 0 && run.leaseMs <= LEASE_MS);
        assert.equal(done.status, "completed");
        const { out } = await runs("--limit", "1");
        assert.match(out, new RegExp(`^RUN .*\\n${runId}  running  ${run.owner}  1 `));
        assert.equal(out.trim().split("\n").length, 2);
      });

      await t.step("Ctrl-C leaves the run alone", async () => {
        const watching = await startCommand(folder, ["runs", "watch", runId], env);
        await eventually(() => watching.out().includes("One") ? true : undefined);
        assert.equal(await watching.end("SIGINT"), 130);
        assert.equal((await listed())[0].status, "running");
      });

      await t.step("a run is told something, and a run that is over is not", async () => {
        const said = await runs("steer", runId, "And", "five", "--queue");
        assert.deepEqual([said.code, said.out.slice(0, 6)], [0, "steer_"], said.err);
        const [, done] = await listed();
        const refused = await runs("steer", done.runId, "More");
        assert.equal(refused.code, 1);
        assert.match(refused.err, /does not run \(completed\): the text was not taken/);
        assert.deepEqual((await runs("stop", done.runId)).out, "it was completed already\n");
        for (const args of [["steer", runId], ["stop", runId, "x"], ["stop", "run_1"]]) {
          assert.equal((await runs(...args)).code, 2, args.join(" "));
        }
      });

      await t.step(
        "a watch goes on when the replica is killed and another takes over",
        async () => {
          const watching = await startCommand(folder, ["runs", "watch", runId], env);
          await eventually(() => watching.out().includes("One two") ? true : undefined);
          await eventually(() => /^running, epoch 1, owner \S+/.test(watching.err()) || undefined);
          await first.end("SIGKILL");
          await assert.rejects(answer.text());
          upstream.script(chatStream({ text: "Four five" }));
          const second = await startTestHub(config, { databaseUrl: postgres.url, dataDir, key });
          try {
            assert.equal(await watching.ended(), 0);
            assert.match(watching.out(), /Four five\nFour five\n$/);
            assert.match(watching.err(), /^said \(queue, applied\): And five$/m);
            assert.match(watching.err(), /it is made again[^]*\ncompleted, epoch 2\n$/);
          } finally {
            await second.close();
          }
        },
      );
    } finally {
      await first.end("SIGKILL").catch(() => {});
    }

    await t.step("mistakes", async () => {
      assert.equal((await runs("watch", `run_${"0".repeat(32)}`)).code, 1);
      for (
        const args of [["watch"], ["watch", "run_1"], ["stop"], ["--limit", "0"], ["--limit", "x"]]
      ) {
        assert.equal((await runs(...args)).code, 2, args.join(" "));
      }
    });
  } finally {
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
