import assert from "node:assert/strict";
import { checkLog } from "../../src/core/check_log.ts";
import { eventually } from "../support/test_hub.ts";
import {
  ask,
  beginRun,
  eventsOf,
  newSession,
  scriptSteps,
  statusOf,
  TEXT,
  textOf,
  type TroubleRig,
  withTroubleRig,
} from "../support/trouble_rig.ts";

/** One way in which Postgres is away. */
interface Trouble {
  name: string;
  begin(rig: TroubleRig): Promise<unknown>;
  end(rig: TroubleRig): Promise<unknown> | void;
  /** What `/readyz` says meanwhile. */
  reason?: string;
}

const FULL_TABLES = ["sessions", "messages", "runs", "run_events", "usage"];

const TROUBLES: Trouble[] = [
  {
    name: "a fast restart",
    begin: ({ server }) => server.stop("fast"),
    end: ({ server }) => server.start(),
  },
  {
    name: "an immediate restart",
    begin: ({ server }) => server.stop("immediate"),
    end: ({ server }) => server.start(),
  },
  {
    name: "a Postgres that is frozen past all deadlines",
    begin: ({ server }) => server.freeze(),
    end: ({ server }) => server.thaw(),
  },
  {
    name: "half-open connections in a network that is gone",
    async begin({ proxy }) {
      await proxy.set("stall");
      proxy.forget();
    },
    end: ({ proxy }) => proxy.set("pass"),
  },
  {
    name: "connections that are refused",
    async begin({ proxy }) {
      await proxy.set("refuse");
      proxy.cut();
    },
    end: ({ proxy }) => proxy.set("pass"),
  },
  {
    name: "a Postgres that turned read-only",
    async begin({ server }) {
      await server.admin("alter system set default_transaction_read_only = on");
      await server.admin("select pg_reload_conf()");
    },
    async end({ server }) {
      await server.admin("alter system reset default_transaction_read_only");
      await server.admin("select pg_reload_conf()");
    },
    reason: "Postgres is read-only",
  },
  {
    // Postgres' own words and code; a real disk cannot be filled here without rights that a test should not want.
    name: "a disk that is full",
    async begin({ server }) {
      await server.admin(
        `create function public.no_room() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: No space left on device'
          using errcode = '53100'; end $$;` +
          FULL_TABLES.map((table) =>
            `create trigger no_room before insert on hub.${table}
            for each row execute function public.no_room();`
          ).join("\n"),
      );
    },
    end: ({ server }) => server.admin("drop function public.no_room cascade"),
    reason: "Postgres has no room",
  },
];

async function usageRows({ server }: TroubleRig): Promise<{ total: number; requests: number }> {
  const [row] = await server.admin<{ total: number; requests: number }>(
    "select count(*)::int as total, count(distinct request_id)::int as requests from hub.usage",
  );
  return row ?? assert.fail("no row");
}

/** A run under way and requests of all kinds while Postgres is away; afterwards everything is whole. */
async function through(trouble: Trouble, rig: TroubleRig): Promise<void> {
  const { hub, upstream } = rig;
  const before = await usageRows(rig);
  const session = await newSession(hub);
  const other = await newSession(hub);
  const gate = Promise.withResolvers<void>();
  scriptSteps(upstream, { gate: gate.promise, steps: 2 });
  const { runId, state, done } = await beginRun(hub, session);
  await eventually(() => Promise.resolve(state.text.includes("word15") || null));

  await trouble.begin(rig);
  gate.resolve();
  const proxied = await Promise.all([1, 2, 3, 4, 5].map(() => statusOf(ask(hub))));
  assert.deepEqual(proxied, [200, 200, 200, 200, 200]);
  for (const path of ["/v1/sessions", `/v1/sessions/${other}/messages`]) {
    const body = path === "/v1/sessions" ? {} : { text: "Now?" };
    const refused = await hub.call(path, { body });
    assert.equal(refused.status, 503, path);
    assert.equal(refused.headers.get("retry-after"), "1");
    assert.equal((await refused.json()).error.code, "database_unavailable");
  }
  const wanted = trouble.reason ?? "Postgres does not answer";
  await eventually(async () => {
    const ready = await hub.call("/readyz");
    assert.equal(ready.status, 503);
    if ((await ready.json()).reason === wanted) return true;
    // What a slow answer hid, or what is forgotten after two seconds, is met again.
    await statusOf(hub.call("/v1/sessions", { body: {} }));
    return null;
  });
  assert.equal(await statusOf(hub.call("/healthz")), 200);
  assert.ok(!state.text.includes('"type":"finish"'), "the run does not end while Postgres is away");

  await trouble.end(rig);
  await eventually(async () => (await statusOf(hub.call("/readyz"))) === 200 || null);
  assert.equal(await statusOf(hub.call("/v1/sessions", { body: {} })), 201);
  const seen = await done;
  assert.deepEqual(checkLog(seen), []);
  const last = seen.at(-1)?.event;
  assert.ok(last?.type === "finish" && last.finishReason === "stop");
  assert.equal(seen.filter(({ event }) => event.type === "finish").length, 1);
  assert.deepEqual(seen.map(({ seq }) => seq), seen.map((_, at) => at + 1));
  assert.equal(textOf(seen), TEXT + TEXT);
  const replay = await hub.call(`/v1/runs/${runId}/stream`);
  assert.deepEqual(eventsOf(await replay.text()), seen);
  // Two steps and five proxied answers.
  const usage = await eventually(async () => {
    const now = await usageRows(rig);
    return now.total >= before.total + 7 ? now : null;
  });
  assert.equal(usage.total, before.total + 7);
  assert.equal(usage.requests, before.requests + 6);
}

Deno.test("a run, the proxy and the books come through whatever Postgres does", async (t) => {
  await withTroubleRig({ deadlineMs: 1500 }, async (rig) => {
    for (const trouble of TROUBLES) await t.step(trouble.name, () => through(trouble, rig));
  });
});
