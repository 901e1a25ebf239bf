import { startTestPostgres } from "../../support/postgres.ts";
import { startTestHub } from "../../support/test_hub.ts";

const here = new URL(".", import.meta.url).pathname;
const HUBS_AT_A_TIME = 3;

/**
 * A door for the suite's command: each scenario gets a hub of its own, as a process, on one database. Some of the suite's
 * servers wait at their end for every connection to be closed.
 */
export async function startClients(): Promise<{ url: string; stop(): Promise<void> }> {
  const postgres = await startTestPostgres({ migrated: false });
  const dataDir = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-conformance-" });
  const place = { databaseUrl: postgres.url, dataDir };
  const first = await startTestHub({}, place);
  const { key } = first;
  await first.close();
  const waiting: (() => void)[] = [];
  let running = 0;
  let count = 0;
  const answer = async (request: Request) => {
    const scenario = {
      url: request.headers.get("x-url"),
      scenario: request.headers.get("x-scenario"),
      context: await request.json(),
    };
    const name = `peer${++count}`;
    if (running === HUBS_AT_A_TIME) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        "-A",
        `--config=${here}../../../deno.json`,
        `${here}hub_as_client.ts`,
        JSON.stringify({ ...place, key, name, scenario }),
      ],
      stdout: "null",
      stderr: "piped",
    }).output();
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
    return new Response(stderr, { status: success ? 200 : 500 });
  };
  const listener = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, answer);
  return {
    url: `http://127.0.0.1:${listener.addr.port}/`,
    async stop() {
      await listener.shutdown();
      await postgres.stop();
      await Deno.remove(dataDir, { recursive: true });
    },
  };
}
