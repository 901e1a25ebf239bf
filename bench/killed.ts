import { SILENT_LOG } from "../src/core/log.ts";
import { UsageJournal } from "../src/run/journal/usage_journal.ts";
import { encodeUsageRow, idsOfUsageRow } from "../src/store/usage_rows.ts";
import { usageRow } from "../tests/support/usage_rows.ts";
import { startHubProcess } from "../tests/support/hub_process.ts";
import { withPostgresServer } from "../tests/support/postgres_server.ts";
import { chatStream, startScriptedUpstream } from "../tests/support/scripted_upstream.ts";
import { systemClock } from "../tests/support/system_clock.ts";
import { eventually } from "../tests/support/test_hub.ts";

/** Calls a second of a key without budgets. */
const RATE = 100;
const ROWS = 20_000;

/**
 * Kills a hub again and again while clients ask it, and counts the answers that they had whole and that have no usage row
 * once the next hubs have booked what was left; then what an append to the journal costs.
 */
export async function measureKills({ kills }: { kills: number }): Promise<string[]> {
  let answered = 0;
  let rows = 0;
  let reached = 0;
  await withPostgresServer(async (server) => {
    const upstream = await startScriptedUpstream();
    upstream.script(() =>
      chatStream({ deltas: ["a", "b", "c"], usage: { promptTokens: 10, completionTokens: 3 } })
    );
    const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-killed-" });
    await Deno.writeTextFile(
      `${folder}/loophub.json`,
      JSON.stringify({ providers: { up: { baseUrl: upstream.url } }, defaultModel: "up/m" }),
    );
    const start = () => startHubProcess(folder, { DATABASE_URL: server.url });
    let hub = await start();
    try {
      const key = await eventually(() => hub.key());
      const ask = async () => {
        try {
          const answer = await fetch(`${hub.url}/v1/chat/completions`, {
            method: "POST",
            headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
            body: JSON.stringify({
              model: "up/m",
              stream: true,
              messages: [{ role: "user", content: "Hi" }],
            }),
          });
          if ((await answer.text()).includes("[DONE]")) answered++;
        } catch {
          // Its hub was killed.
        }
      };
      for (let kill = 0; kill < kills; kill++) {
        const asking: Promise<void>[] = [];
        const timer = setInterval(() => asking.push(ask()), 1000 / RATE);
        await new Promise((resolve) => setTimeout(resolve, 1000 + Math.random() * 1000));
        await hub.end("SIGKILL");
        clearInterval(timer);
        await Promise.all(asking);
        hub = await start();
      }
      await hub.end("SIGTERM");
      hub = await start();
      reached = upstream.requests.length;
      await new Promise((resolve) => setTimeout(resolve, 3000));
      const [counts] = await server.admin<{ rows: number }>(
        "select count(*)::int as rows from hub.usage where outcome = 'ok'",
      );
      rows = counts?.rows ?? 0;
    } finally {
      await hub.end("SIGKILL");
      await upstream.stop();
      await Deno.remove(folder, { recursive: true });
    }
  });
  return [
    `${kills} kills -9 at ${RATE} calls a second: ${answered} whole answers of ${reached} calls, ${rows} rows, ${
      Math.max(0, answered - rows)
    } lost`,
    `an append to the journal: ${(await appendMicros()).toFixed(1)} µs`,
  ];
}

/** What a row's way into the journal and out of it costs, in microseconds. */
async function appendMicros(): Promise<number> {
  const dir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-append-" });
  const options = { dir, name: "one", clock: systemClock, log: SILENT_LOG };
  const journal = await UsageJournal.open(options);
  if (journal === null) throw new Error(`${dir} cannot be written`);
  const encoded = Array.from({ length: ROWS }, (_, index) => encodeUsageRow(usageRow(index)));
  const fromMs = performance.now();
  for (const row of encoded) journal.append(row);
  const tookMs = performance.now() - fromMs;
  journal.booked(encoded.map((row) => idsOfUsageRow(row).usageId));
  await journal.close();
  await Deno.remove(dir, { recursive: true });
  return tookMs * 1000 / ROWS;
}
