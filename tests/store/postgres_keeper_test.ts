import assert from "node:assert/strict";
import { HubError } from "../../src/core/error.ts";
import { SILENT_LOG } from "../../src/core/log.ts";
import { keepPostgres } from "../../src/store/postgres_keeper.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const URL = "postgres://loophub@127.0.0.1:1/loophub";

/** Servers that end when the test says. */
function rig() {
  const clock = createFakeClock();
  const servers: { end(code: number): void; stops: number }[] = [];
  const errors: string[] = [];
  const state = { failure: null as Error | null, url: URL };
  const make = () => {
    const exited = Promise.withResolvers<{ code: number }>();
    const server = { end: (code: number) => exited.resolve({ code }), stops: 0 };
    servers.push(server);
    return {
      url: state.url,
      exited: exited.promise,
      stop() {
        server.stops++;
        server.end(0);
        return Promise.resolve();
      },
    };
  };
  const log = { ...SILENT_LOG, error: (message: string) => void errors.push(message) };
  const start = () =>
    state.failure === null ? Promise.resolve(make()) : Promise.reject(state.failure);
  const kept = keepPostgres(make(), { start, clock, log });
  let isLost = false;
  void kept.lost.then(() => isLost = true);
  const last = () => servers.at(-1) ?? assert.fail("none was started");
  return { clock, servers, errors, state, kept, last, isLost: () => isLost };
}

Deno.test("keepPostgres: one that ends is started again, later each time", async () => {
  const { clock, servers, errors, kept, last } = rig();
  for (const pauseMs of [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]) {
    const before = servers.length;
    last().end(137);
    await clock.advance(pauseMs - 1);
    assert.equal(servers.length, before);
    await clock.advance(1);
    assert.equal(servers.length, before + 1);
  }
  assert.match(errors[0] ?? "", /has ended and is started again/);
  await clock.advance(60_000);
  const before = servers.length;
  last().end(1);
  await clock.advance(100);
  assert.equal(servers.length, before + 1, "one that was up for long comes back at once");
  await kept.stop();
  assert.equal(last().stops, 1);
  assert.equal(clock.pending(), 0);
});

Deno.test("keepPostgres: a full disk is waited for, another owner is not", async () => {
  const { clock, servers, state, kept, last, isLost } = rig();
  state.failure = new HubError("internal_error", "could not write lock file: No space left");
  last().end(1);
  await clock.advance(120_000);
  assert.equal(isLost(), false);
  state.failure = null;
  await clock.advance(10_000);
  assert.equal(servers.length, 2);
  state.failure = new HubError("invalid_configuration", "in use", { details: { holder: "7" } });
  last().end(1);
  await clock.advance(10_000);
  assert.equal(isLost(), true);
  await kept.stop();
});

Deno.test("keepPostgres: it comes back at the address that the hub has, or not yet", async () => {
  const { clock, servers, state, kept, last } = rig();
  state.url = "postgres://loophub@127.0.0.1:2/loophub";
  last().end(1);
  await clock.advance(100);
  assert.equal(last().stops, 1, "at another port it is stopped again");
  state.url = URL;
  await clock.advance(200);
  assert.deepEqual([servers.length, last().stops], [3, 0]);
  await kept.stop();
});

Deno.test("keepPostgres: a stop ends the wait for the next start", async () => {
  const { clock, servers, kept, last } = rig();
  last().end(1);
  await settle();
  await kept.stop();
  await clock.advance(60_000);
  assert.equal(servers.length, 1);
});
