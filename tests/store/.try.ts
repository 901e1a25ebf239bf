import { startEmbeddedPostgres } from "/work/main/src/store/embedded_postgres.ts";
const log: any = {
  debug() {},
  info() {},
  warn: (...a: any[]) => console.log("warn", ...a),
  error() {},
  with() {
    return log;
  },
};
const clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (f: any, ms: number) => setTimeout(f, ms),
  clearTimer: (t: any) => clearTimeout(t),
};
let t = performance.now();
const pg = await startEmbeddedPostgres({ dataDir: Deno.args[0], log, clock });
console.log(pg.url, pg.pid, pg.firstStart, pg.dataDir, Math.round(performance.now() - t), "ms");
if (Deno.args[1] === "hold") await new Promise(() => setInterval(() => {}, 1000));
try {
  await startEmbeddedPostgres({ dataDir: Deno.args[0], log, clock });
} catch (e) {
  console.log((e as Error).message);
}
t = performance.now();
await pg.stop();
console.log("stop", Math.round(performance.now() - t), await pg.exited);
