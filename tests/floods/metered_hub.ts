// A hub on the database and with the configuration of its argument, and a meter of its event loop. Prints its address
// and key; each line on stdin is answered with the longest stretch since the line before.
import { startTestHub } from "../support/test_hub.ts";
import { LoopMeter } from "./loop_meter.ts";

const { config, databaseUrl, dataDir } = JSON.parse(Deno.args[0] ?? "{}");
const encoder = new TextEncoder();
const say = (value: unknown) => Deno.stdout.write(encoder.encode(`${JSON.stringify(value)}\n`));
const hub = await startTestHub(config, { databaseUrl, dataDir });
const meter = new LoopMeter();
await say({ url: hub.url, key: hub.key });
for await (const _line of Deno.stdin.readable) await say(await meter.take());
meter.stop();
await hub.close();
