import assert from "node:assert/strict";
import { Aborter } from "../../../src/core/abort.ts";
import { uiSource } from "../../../src/http/routes/run_source.ts";
import { eventsOf } from "../../../src/http/routes/runs.ts";
import { Broadcast, type LiveEvent } from "../../../src/run/broadcast.ts";
import type { FollowOptions } from "../../../src/run/follow_run.ts";
import type { LiveRun } from "../../../src/run/live_run.ts";
import { DEFAULT_TENANT_ID } from "../../../src/store/tenant.ts";

const page = (seq: number): LiveEvent[] => [{
  seq,
  event: { type: "step-start", step: seq },
  bytes: new TextEncoder().encode(`${seq}`),
}];

for (const pulls of [0, 1, 2]) {
  Deno.test(`a client that leaves after ${pulls} reads ends the following of its run`, async () => {
    let isClosed = false;
    const events = (async function* () {
      try {
        for (let seq = 1;; seq++) yield await Promise.resolve(page(seq));
      } finally {
        isClosed = true;
      }
    })();
    const source = uiSource(events, await events.next());
    for (let seq = 1; seq <= pulls; seq++) {
      assert.equal(new TextDecoder().decode(await source.pull() ?? undefined), `${seq}`);
    }
    source.cancel(undefined);
    assert.equal((await events.next()).done, true);
    assert.ok(isClosed);
  });
}

/** A run that was started here, and how many read it. */
function liveRun() {
  const broadcast = new Broadcast();
  let readers = 0;
  const live = {
    broadcast: {
      subscribe() {
        const subscriber = broadcast.subscribe();
        readers++;
        return {
          tail: subscriber.tail,
          next: () => subscriber.next(),
          close() {
            readers--;
            subscriber.close();
          },
        };
      },
    },
  } as unknown as LiveRun;
  return { live, readers: () => readers };
}

for (const when of ["before it reads", "while it waits"]) {
  Deno.test(`a client that leaves ${when} is no reader of its live run any more`, async () => {
    const { live, readers } = liveRun();
    const aborter = new Aborter();
    const principal = {
      tenantId: DEFAULT_TENANT_ID,
      keyId: "key",
      keyName: "",
      role: "user" as const,
    };
    const call = { principal, signal: aborter };
    const started = { runId: "run", messageId: "msg", live };
    const events = eventsOf(call as never, started, {} as FollowOptions);
    const next = when === "while it waits" ? events.next() : null;
    assert.equal(readers(), 1);
    aborter.abort("left");
    assert.equal(readers(), 0);
    assert.deepEqual(await (next ?? events.next()), { done: true, value: false });
  });
}
