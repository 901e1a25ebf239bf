import { parseArgs } from "node:util";
import { HubError } from "../core/error.ts";
import { createHub } from "../hub/create_hub.ts";
import { assertPortFree } from "./assert_port_free.ts";
import { EXIT } from "./exit_codes.ts";
import { introduce } from "./introduce.ts";
import { printError } from "./print.ts";
import { exitCodeOf, serveUntilStopped } from "./serve_until_stopped.ts";
import { serveWorkers } from "./serve_workers.ts";
import { catchStopSignal } from "./stop_signals.ts";
import { loadSystemConfig, reloadSystemConfig, systemHubOptions } from "./system.ts";

const OPTIONS = {
  config: { type: "string" },
  replicas: { type: "string" },
  workers: { type: "string" },
} as const;
const MAX_WORKERS = 256;

/** `loophub start`: serves until Ctrl-C, SIGTERM, or the end of its own Postgres. */
export async function start(args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options: OPTIONS });
  const count = parseCount(values.replicas ?? values.workers);
  if (count === null) {
    printError(`--replicas wants a whole number from 1 to ${MAX_WORKERS}`);
    return EXIT.usage;
  }
  if (count > 1) {
    assertSharedPorts(Deno.build.os);
    return await serveWorkers(await loadSystemConfig(values.config), count);
  }
  const stopSignal = catchStopSignal();
  const loaded = await loadSystemConfig(values.config);
  assertPortFree(loaded.config.server);
  const options = systemHubOptions(loaded);
  const hub = await createHub(options);
  const endReloading = await reloadSystemConfig(loaded, { ...options, apply: hub.reload });
  let code: number | null = null;
  try {
    const { url } = hub.listen();
    // Not before the port is had: a key that is made and not shown is lost.
    const isEmbedded = loaded.config.database.url === undefined;
    await introduce({ ...hub, url, isEmbedded, key: await hub.makeFirstKey() });
    for (const note of loaded.notes) options.log.info(note);
    code = await serveUntilStopped(hub, { stopSignal, log: options.log });
  } finally {
    endReloading();
    const unwritten = await hub.close();
    if (code !== null) code = exitCodeOf(code, unwritten);
  }
  return code;
}

/** The number of processes; one unless told, null for what is no number of them. */
function parseCount(text = "1"): number | null {
  const count = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= MAX_WORKERS ? count : null;
}

/** Throws `invalid_configuration` where the kernel does not spread connections over processes that share a port. */
export function assertSharedPorts(os: typeof Deno.build.os): void {
  if (os === "linux") return;
  throw new HubError(
    "invalid_configuration",
    `Several processes can share a port on Linux only, and this is ${os}: start hubs on ports of their own behind a load balancer`,
  );
}
