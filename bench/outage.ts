import { withPostgresServer } from "../tests/support/postgres_server.ts";
import { type Figures, load, median } from "./overload.ts";
import { type StartedHub, startHub } from "./targets.ts";

/** Far below what a core can do, so that a latency is not that of a queue. */
const RATE = 300;
const MODEL = "mock/mock-n8-d0-k1";
/** Rows wait for Postgres at most so long after it is back. */
const WRITTEN_MS = 60_000;
/** No row comes twice after so long. */
const SETTLED_MS = 5000;

/**
 * Streams for a key without limits that the hub knows, at one rate, while Postgres is up and while it is stopped, in
 * turn. Gives a table; rejects unless every request that the provider got has its usage row afterwards.
 */
export async function measureOutage(
  options: { folder: string; upstream: number; rounds: number; seconds: number },
): Promise<string[]> {
  const { folder, upstream, rounds, seconds } = options;
  const file = `${folder}/outage.json`;
  const messages = [{ role: "user", content: "Tell me about foxes and dogs, please." }];
  await Deno.writeTextFile(file, JSON.stringify({ model: MODEL, stream: true, messages }));
  const lines: string[] = [];
  await withPostgresServer(async (server) => {
    const hub = await startHub(folder, upstream, { databaseUrl: server.url });
    try {
      const run = () => load(hub, { file, seconds, args: ["-r", RATE, "-c", 400] });
      const asked = await requestsOf(upstream);
      await run();
      const [up, down]: [Figures[], Figures[]] = [[], []];
      for (let round = 0; round < rounds; round++) {
        up.push(await run());
        await server.stop("immediate");
        down.push(await run());
        if (!await answers(hub)) throw new Error("The hub has ended");
        await server.start();
      }
      lines.push(...tableOf(up, down, { rounds, seconds }));
      // The question itself is one.
      const reached = await requestsOf(upstream) - asked - 1;
      const rows = await rowsWhenWritten(server, reached);
      lines.push(
        "",
        `requests that reached the provider: ${reached}; usage rows afterwards: ${rows}`,
      );
      if (rows !== reached) throw new Error([...lines, "They differ"].join("\n"));
    } finally {
      await hub.stop();
    }
  });
  return lines;
}

const SHOWN = ["ttft_p50", "ttft_p99", "total_p50", "total_p99"] as const;

function tableOf(
  up: Figures[],
  down: Figures[],
  { rounds, seconds }: { rounds: number; seconds: number },
): string[] {
  const [before, during] = [median(up), median(down)];
  const show = (figure: (key: string) => number) => SHOWN.map((key) => figure(key).toFixed(2));
  const failed = (samples: Figures[]) =>
    String(samples.reduce((sum, { err = 0, refused = 0 }) => sum + err + refused, 0));
  const rows = [
    ["Postgres up", before("rps").toFixed(0), ...show(before), failed(up)],
    ["Postgres stopped", during("rps").toFixed(0), ...show(during), failed(down)],
    ["rise", "", ...show((key) => during(key) - before(key)), ""],
  ];
  const head = [
    `${rounds} × ${seconds} s, ${RATE} streams/s`,
    "per second",
    "first token p50 ms",
    "first token p99 ms",
    "whole p50 ms",
    "whole p99 ms",
    "failed",
  ];
  return [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`);
}

async function answers(hub: StartedHub): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${hub.port}/healthz`);
    await answer.body?.cancel();
    return answer.ok;
  } catch {
    return false;
  }
}

/** How many requests the provider has got. */
async function requestsOf(upstream: number): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${upstream}/stats`);
  return (await answer.json()).req;
}

/** Counts until there are as many as wanted, and a while longer, as there might be more. */
async function rowsWhenWritten(
  server: { admin<T>(text: string): Promise<T[]> },
  wanted: number,
): Promise<number> {
  const untilMs = performance.now() + WRITTEN_MS;
  for (;;) {
    const [{ rows } = { rows: 0 }] = await server.admin<{ rows: number }>(
      "select count(*)::int as rows from hub.usage",
    );
    if (rows === wanted && performance.now() > untilMs - WRITTEN_MS + SETTLED_MS) return rows;
    if (performance.now() > untilMs) return rows;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}
