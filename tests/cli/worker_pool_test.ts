import assert from "node:assert/strict";
import { SILENT_LOG } from "../../src/core/log.ts";
import { WorkerPool, type WorkerProcess } from "../../src/cli/worker_pool.ts";
import type { LoadedConfig } from "../../src/config/load.ts";
import type { ReloadAnswer } from "../../src/cli/worker_brief.ts";
import { loadText, LOCAL } from "../config/load_fixture.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const URL = "http://127.0.0.1:4141";

/** A worker that does what the test says. */
function fakeWorker(number: number, url: string | null) {
  const ready = Promise.withResolvers<string | null>();
  const exited = Promise.withResolvers<number>();
  const signals: string[] = [];
  const asked: string[] = [];
  const answer = Promise.withResolvers<ReloadAnswer | null>();
  return {
    asked,
    /** Answers reloads, those asked before too; null as one that ended first. */
    answer: answer.resolve,
    number,
    url,
    signals,
    listen: () => ready.resolve(URL),
    exit(code: number) {
      ready.resolve(null);
      exited.resolve(code);
    },
    process: {
      pid: 1000 + number,
      ready: ready.promise,
      exited: exited.promise,
      reload({ source }) {
        asked.push(source ?? "");
        return answer.promise;
      },
      signal(signal) {
        signals.push(signal);
        if (signal === "SIGKILL") exited.resolve(137);
      },
    } satisfies WorkerProcess,
  };
}

function rig(count: number) {
  const clock = createFakeClock();
  const workers: ReturnType<typeof fakeWorker>[] = [];
  const errors: string[] = [];
  const pool = new WorkerPool({
    count,
    clock,
    log: {
      ...SILENT_LOG,
      error: (message, fields) => void errors.push(`${message} ${JSON.stringify(fields)}`),
    },
    spawn(number, url) {
      const worker = fakeWorker(number, url);
      workers.push(worker);
      return worker.process;
    },
  });
  const at = (index: number) => workers[index] ?? assert.fail(`worker ${index} was not started`);
  return { clock, pool, workers, at, errors };
}

const FILE: LoadedConfig = {
  ...(await loadText({ providers: { local: LOCAL } })),
  source: "loophub.json",
};

async function started(count: number) {
  const all = rig(count);
  const starting = all.pool.start();
  all.at(0).listen();
  await settle();
  for (const worker of all.workers) worker.listen();
  assert.deepEqual(await starting, { url: URL });
  return all;
}

async function stop({ pool, workers }: Pick<ReturnType<typeof rig>, "pool" | "workers">) {
  const stopped = pool.stop("SIGINT", 1000);
  for (const worker of workers) worker.exit(0);
  await stopped;
}

Deno.test("the first worker finds the port, the others get it", async () => {
  const all = await started(3);
  assert.deepEqual(all.workers.map(({ number, url }) => [number, url]), [
    [1, null],
    [2, URL],
    [3, URL],
  ]);
  await stop(all);
  assert.deepEqual(all.workers.map(({ signals }) => signals), [["SIGINT"], ["SIGINT"], ["SIGINT"]]);
});

Deno.test("a first worker that cannot start is the only one, and its exit code is the pool's", async () => {
  const { pool, workers, at } = rig(3);
  const starting = pool.start();
  at(0).exit(3);
  assert.deepEqual(await starting, { code: 3 });
  assert.equal(workers.length, 1);
});

Deno.test("WorkerPool: a first worker that is killed is started again, and the log says why", async () => {
  const { clock, pool, workers, at, errors } = rig(2);
  const starting = pool.start();
  at(0).exit(137);
  await clock.advance(100);
  assert.equal(workers.length, 2);
  assert.match(errors[0] ?? "", /^A worker ended and is started again .*"code":137.*SIGKILL/);
  at(1).listen();
  await settle();
  at(2).listen();
  assert.deepEqual(await starting, { url: URL });
  await stop({ pool, workers });
});

Deno.test("WorkerPool: a first worker that is killed five times fails the start", async () => {
  const { clock, pool, workers, at, errors } = rig(2);
  const starting = pool.start();
  for (const pauseMs of [100, 200, 400, 800, 0]) {
    at(workers.length - 1).exit(137);
    await clock.advance(pauseMs);
  }
  assert.deepEqual(await starting, { code: 137 });
  assert.equal(workers.length, 5);
  assert.match(errors.at(-1) ?? "", /^A worker did not start/);
});

Deno.test("WorkerPool: a worker that dies before it listens leaves the others alone and comes back", async () => {
  const { clock, pool, workers, at, errors } = rig(3);
  const starting = pool.start();
  at(0).listen();
  await settle();
  at(1).exit(1);
  at(2).listen();
  await clock.advance(100);
  assert.deepEqual([at(0).signals, at(2).signals], [[], []]);
  assert.equal(at(3).number, 2);
  assert.match(errors[0] ?? "", /"worker":2,.*"hasListened":false/);
  at(3).listen();
  assert.deepEqual(await starting, { url: URL });
  await stop({ pool, workers });
});

Deno.test("WorkerPool: a worker that never comes up is not waited for, and is tried on", async () => {
  const { clock, pool, workers, at } = rig(2);
  const starting = pool.start();
  at(0).listen();
  for (const pauseMs of [100, 200, 400, 800, 1600]) {
    await settle();
    at(workers.length - 1).exit(1);
    await clock.advance(pauseMs);
  }
  assert.deepEqual(await starting, { url: URL });
  assert.equal(workers.length, 7);
  await stop({ pool, workers });
});

Deno.test("a worker that ends is started again, later each time, at most ten seconds later", async () => {
  const all = await started(2);
  const { clock, at, workers } = all;
  for (const pauseMs of [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]) {
    const before = workers.length;
    at(before - 1).exit(1);
    await clock.advance(pauseMs - 1);
    assert.equal(workers.length, before);
    await clock.advance(1);
    assert.equal(workers.length, before + 1);
    assert.deepEqual([at(before).number, at(before).url], [2, URL]);
  }
  at(workers.length - 1).listen();
  await clock.advance(60_000);
  const before = workers.length;
  at(before - 1).exit(137);
  await clock.advance(100);
  assert.equal(workers.length, before + 1, "one that was up for long comes back at once");
  await stop(all);
  assert.equal(clock.pending(), 0);
});

Deno.test("a stop ends the pause before a restart, and kills who does not end in time", async () => {
  const { clock, pool, at, workers } = await started(2);
  at(1).exit(1);
  await settle();
  const stopped = pool.stop("SIGTERM", 1000);
  await clock.advance(999);
  assert.deepEqual(at(0).signals, ["SIGTERM"]);
  await clock.advance(1);
  assert.deepEqual(at(0).signals, ["SIGTERM", "SIGKILL"]);
  await stopped;
  await clock.advance(60_000);
  assert.equal(workers.length, 2);
});

Deno.test("a stop during the start starts no more workers", async () => {
  const { pool, at, workers } = rig(3);
  const starting = pool.start();
  const stopped = pool.stop("SIGTERM", 1000);
  at(0).listen();
  await settle();
  at(0).exit(0);
  await stopped;
  await starting;
  assert.equal(workers.length, 1);
});

Deno.test("WorkerPool: a configuration that one worker refuses reaches no other", async () => {
  const all = await started(3);
  const taken: string[] = [];
  const reloading = all.pool.reload(FILE, () => void taken.push("taken"));
  all.at(0).answer({ refusal: "it is wrong" });
  await assert.rejects(reloading, { code: "invalid_configuration", message: "it is wrong" });
  assert.deepEqual(all.workers.map(({ asked }) => asked.length), [1, 0, 0]);
  assert.deepEqual(taken, []);
  await stop(all);
});

Deno.test("WorkerPool: a configuration that one worker took over reaches each of them once", async () => {
  const all = await started(3);
  const asked = () => all.workers.map((worker) => worker.asked.length);
  const taken: number[][] = [];
  const reloading = all.pool.reload(FILE, () => void taken.push(asked()));
  await settle();
  assert.deepEqual(asked(), [1, 0, 0]);
  // One that ends first says nothing, and one that hangs is not waited for without end.
  all.at(0).answer(null);
  await settle();
  assert.deepEqual(asked(), [1, 1, 0]);
  await all.clock.advance(20_000);
  assert.deepEqual([asked(), taken], [[1, 1, 1], []]);
  all.at(2).answer({ refusal: null });
  await reloading;
  assert.deepEqual([asked(), taken], [[1, 1, 1], [[1, 1, 1]]]);
  await stop(all);
});

Deno.test("WorkerPool: a worker that refuses what another took over is in the log", async () => {
  const all = await started(2);
  all.at(0).answer({ refusal: null });
  await all.pool.reload(FILE, () => {});
  all.at(1).answer({ refusal: "no bwrap here" });
  await settle();
  assert.match(all.errors.join(), /refused a configuration that another took over .*no bwrap here/);
  await stop(all);
});
