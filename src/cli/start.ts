import { parseArgs } from "node:util";
import { createHub, type Hub } from "../hub.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError } from "./print.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { loadSystemConfig, systemHubOptions } from "./system.ts";

/** `loophub start`: serves until Ctrl-C, SIGTERM, or the end of its own Postgres. */
export async function start(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: { config: { type: "string" } } });
  const asked = catchStopSignal();
  const loaded = await loadSystemConfig(values.config);
  const options = systemHubOptions(loaded);
  const hub = await createHub(options);
  try {
    const server = hub.listen();
    // Not before the port is had: a key that is made and not shown is lost.
    introduce(hub, { url: server.url, key: await hub.makeFirstKey() });
    for (const note of loaded.notes) options.log.info(note);
    const signal = await Promise.race([asked, hub.databaseLost]);
    if (signal === undefined) {
      printError("The embedded Postgres has ended: see postgres.log in the data folder");
      return EXIT.failed;
    }
    options.log.info("Stopping; a second signal ends at once", {
      signal,
      answers: server.active(),
    });
    if (signal === "SIGTERM") await hub.leave();
    return EXIT.ok;
  } finally {
    await hub.close();
  }
}

function introduce(hub: Hub, { url, key }: { url: string; key: string | null }): void {
  const model = hub.models[0] ?? "PROVIDER/MODEL";
  print(`Loophub listens on ${url}`);
  print(`  API       ${url}/v1`);
  print(`  psql      ${hub.databaseUrl}`);
  print(`  models    ${hub.models.join(", ") || "any name of a configured provider"}`);
  if (key === null) return;
  print(`
This is the first start. Your key, shown only now:

export OPENAI_BASE_URL=${url}/v1 OPENAI_API_KEY=${key}

# the proxy
curl ${url}/v1/chat/completions -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"model":"${model}","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

# an agent run
curl -N ${url}/api/chat -H "authorization: Bearer ${key}" -H "content-type: application/json" -d '{"id":"first-chat","messages":[{"id":"m1","role":"user","parts":[{"type":"text","text":"Use current_time, then calculate {\\"expression\\":\\"6*7\\"}"}]}]}'
`);
}
