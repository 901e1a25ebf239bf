import assert from "node:assert/strict";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import { Listener } from "../../src/store/listener.ts";
import type { ListenHandlers } from "../../src/store/listen_connection.ts";
import type { Wakeup } from "../../src/store/wakeup.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";

const BEAT = JSON.stringify({ beat: true });
const RUN = `run_${"0".repeat(32)}`;

/** A listener on connections that a test breaks. By default they open, and beats come back. */
function setup() {
  const clock = createFakeClock();
  const connections: (ListenHandlers & { closed: boolean; atMs: number })[] = [];
  const wakeups: Wakeup[] = [];
  const said: string[] = [];
  const state = {
    ready: (): Promise<void> => Promise.resolve(),
    /** The newest connection delivers. */
    delivers: true,
    beat: (): Promise<void> => Promise.resolve(),
    beats: 0,
    ups: 0,
    ignored: 0,
  };
  const log: Log = {
    ...SILENT_LOG,
    warn: (_, fields) => said.push(String(fields?.["why"])),
    info: () => said.push("again"),
    error: (message) => said.push(message),
  };
  const listener = new Listener({
    open(handlers) {
      const connection = { ...handlers, closed: false, atMs: clock.monotonic() };
      connections.push(connection);
      return {
        ready: state.ready(),
        close() {
          connection.closed = true;
          return Promise.resolve();
        },
      };
    },
    async beat() {
      state.beats++;
      await state.beat();
      if (state.delivers) connections.at(-1)?.onPayload(BEAT);
    },
    onWakeup: (wakeup) => wakeups.push(wakeup),
    onUp: () => state.ups++,
    observe: { up() {}, heard: (outcome) => void (outcome === "ignored" && state.ignored++) },
    clock,
    random: () => 1,
    log,
  });
  return { clock, connections, wakeups, said, state, listener };
}

Deno.test("a listener whose beats come back stays, and beats every 5 s", async () => {
  const { clock, connections, said, state, listener } = setup();
  listener.start();
  await clock.advance(60_000);
  assert.equal(listener.up, true);
  assert.deepEqual([connections.length, state.beats, state.ups], [1, 13, 1]);
  assert.deepEqual(said, []);
  await listener.close();
  assert.equal(listener.up, false);
  assert.equal(connections[0]?.closed, true);
  assert.equal(clock.pending(), 0);
});

Deno.test("a connection that has gone silent is noticed within 10 s and opened anew", async () => {
  const { clock, connections, said, state, listener } = setup();
  listener.start();
  await clock.advance(5001);
  state.delivers = false;
  await clock.advance(9998);
  assert.equal(listener.up, true);
  await clock.advance(1);
  assert.equal(listener.up, false);
  assert.equal(connections[0]?.closed, true);
  state.delivers = true;
  await clock.advance(200);
  assert.equal(listener.up, true);
  assert.equal(state.ups, 2);
  assert.deepEqual(said, ["a heartbeat did not come back", "again"]);
  // Nothing that the old connection still says counts.
  connections[0]?.onPayload(`{"keys":true}`);
  connections[0]?.onClosed();
  assert.equal(listener.up, true);
  await listener.close();
});

Deno.test("any notification shows that the connection lives", async () => {
  const { clock, connections, state, listener } = setup();
  listener.start();
  await clock.advance(0);
  state.delivers = false;
  await clock.advance(5000);
  await clock.advance(4999);
  connections[0]?.onPayload("no wakeup");
  await clock.advance(5000);
  assert.equal(listener.up, true);
  assert.equal(state.ignored, 1);
  await listener.close();
});

Deno.test("a beat that could not be sent tells nothing about the connection", async () => {
  const { clock, connections, state, listener } = setup();
  state.beat = () => Promise.reject(new Error("no connection is free"));
  listener.start();
  await clock.advance(60_000);
  assert.equal(listener.up, false);
  state.beat = () => Promise.resolve();
  await clock.advance(2000);
  assert.equal(listener.up, true);
  state.beat = () => Promise.reject(new Error("no connection is free"));
  await clock.advance(60_000);
  state.beat = () => new Promise(() => {});
  await clock.advance(60_000);
  assert.equal(listener.up, true);
  assert.equal(connections.length, 1);
  await listener.close();
});

Deno.test("LISTEN that nothing comes of is noticed within 2 s, said once, and tried later and later", async () => {
  const { clock, connections, said, state, listener } = setup();
  state.delivers = false;
  listener.start();
  await clock.advance(1999);
  assert.deepEqual([listener.up, said.length], [false, 0]);
  await clock.advance(1);
  assert.equal(said.length, 1);
  assert.match(said[0] ?? "", /set database\.directUrl/);
  await clock.advance(30_000);
  assert.deepEqual(
    connections.map(({ atMs }) => atMs),
    [0, 2200, 4600, 7400, 11_000, 16_200, 24_600],
  );
  assert.deepEqual([listener.up, state.ups, said.length], [false, 0, 1]);
  state.delivers = true;
  await clock.advance(20_000);
  assert.deepEqual([listener.up, state.ups, said.at(-1)], [true, 1, "again"]);
  await listener.close();
  assert.equal(clock.pending(), 0);
});

Deno.test("a connection that is closed before anything came is opened anew", async () => {
  const { clock, connections, state, listener } = setup();
  state.delivers = false;
  listener.start();
  await clock.advance(100);
  connections[0]?.onClosed();
  state.delivers = true;
  await clock.advance(200);
  assert.deepEqual([connections.length, listener.up], [2, true]);
  await listener.close();
});

Deno.test("a connection that was closed is opened anew, later and later while that fails", async () => {
  const { clock, connections, said, state, listener } = setup();
  listener.start();
  await clock.advance(0);
  state.ready = () => Promise.reject(new Error("connection refused"));
  connections[0]?.onClosed();
  assert.equal(listener.up, false);
  await clock.advance(30_000);
  assert.deepEqual(
    connections.map(({ atMs }) => atMs),
    [0, 200, 600, 1400, 3000, 6200, 12_600, 22_600],
  );
  assert.deepEqual(said, ["Postgres closed it"]);
  state.ready = () => Promise.resolve();
  await clock.advance(10_000);
  assert.equal(listener.up, true);
  connections.at(-1)?.onClosed();
  await clock.advance(200);
  assert.equal(connections.length, 10);
  assert.deepEqual(said, ["Postgres closed it", "again", "Postgres closed it", "again"]);
  await listener.close();
});

Deno.test("a connection that does not open in 5 s is given up", async () => {
  const { clock, connections, state, listener } = setup();
  state.ready = () => new Promise(() => {});
  listener.start();
  await clock.advance(5000);
  assert.equal(connections[0]?.closed, true);
  state.ready = () => Promise.resolve();
  await clock.advance(200);
  assert.equal(listener.up, true);
  await listener.close();
  assert.equal(clock.pending(), 0);
});

Deno.test("a listener that ends while it opens stays closed", async () => {
  const { clock, connections, state, listener } = setup();
  const gate = Promise.withResolvers<void>();
  state.ready = () => gate.promise;
  listener.start();
  await listener.close();
  gate.resolve();
  await settle();
  await clock.advance(60_000);
  assert.equal(listener.up, false);
  assert.equal(connections.length, 1);
  assert.equal(connections[0]?.closed, true);
  listener.start();
  assert.equal(connections.length, 1);
});

Deno.test("what a handler throws does not reach the driver", async () => {
  const clock = createFakeClock();
  const said: string[] = [];
  const fail = () => {
    throw new Error("a handler broke");
  };
  let handlers: ListenHandlers | undefined;
  const listener = new Listener({
    open(given) {
      handlers = given;
      return { ready: Promise.resolve(), close: () => Promise.resolve() };
    },
    beat: () => Promise.resolve(),
    onWakeup: fail,
    onUp: fail,
    clock,
    random: () => 1,
    log: { ...SILENT_LOG, error: (message) => said.push(message) },
  });
  listener.start();
  await clock.advance(0);
  handlers?.onPayload(JSON.stringify({ runs: [RUN] }));
  assert.equal(said.length, 2);
  assert.equal(listener.up, true);
  await listener.close();
});
