import assert from "node:assert/strict";
import { Type } from "@sinclair/typebox";
import { HubError } from "../../src/core/error.ts";
import type { ConcurrencyGate } from "../../src/core/concurrency_gate.ts";
import { type Log, SILENT_LOG } from "../../src/core/log.ts";
import type { RequestFacts } from "../../src/http/app.ts";
import { clientLeft } from "../../src/http/hub_request.ts";
import { emptyReply, jsonReply, streamReply } from "../../src/http/reply.ts";
import { defineRoute } from "../../src/http/route.ts";
import { Admission } from "../../src/policy/admission.ts";
import { makeApiKey } from "../../src/policy/api_key.ts";
import { KeyGates } from "../../src/policy/key_gates.ts";
import { createFakeClock, settle } from "../support/fake_clock.ts";
import { createTally, createTestGate } from "../support/gates.ts";
import { ADMIN, createTestApp, deferred, randomBytes, USER } from "./fixture.ts";

const facts = { tag: "test", summary: "test", responses: {} };
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const errorOf = async (response: Response) => (await response.json()).error;

const levels = (["public", "user", "admin"] as const).map((auth) =>
  defineRoute({
    ...facts,
    method: "GET",
    path: `/${auth}`,
    auth,
    handle: () => jsonReply({ auth }),
  })
);

Deno.test("every level of every route, for every kind of caller", async () => {
  const app = createTestApp(levels);
  const wanted: Record<string, Record<string, number>> = {
    public: { none: 200, garbage: 200, user: 200, admin: 200 },
    user: { none: 401, garbage: 401, user: 200, admin: 200 },
    admin: { none: 401, garbage: 401, user: 403, admin: 200 },
  };
  const callers: Record<string, HeadersInit> = {
    none: {},
    garbage: bearer("sk-garbage"),
    user: bearer(USER.token),
    admin: { "x-api-key": ADMIN.token },
  };
  for (const [level, results] of Object.entries(wanted)) {
    for (const [caller, status] of Object.entries(results)) {
      const response = await app.request(`/${level}`, { headers: callers[caller] ?? {} });
      assert.equal(response.status, status, `${caller} on ${level}`);
      if (status >= 400) assert.equal(response.headers.get("x-should-retry"), "false");
      assert.equal(response.headers.get("www-authenticate") !== null, status === 401);
      await response.body?.cancel();
    }
  }
});

Deno.test("401 in OpenAI's words", async () => {
  const app = createTestApp(levels);
  const error = await errorOf(await app.request("/user", { headers: bearer("nonsense") }));
  assert.deepEqual(error, {
    message: "Incorrect API key provided",
    type: "invalid_request_error",
    param: null,
    code: "invalid_api_key",
  });
  const basic = await app.request("/user", { headers: { authorization: "Basic eDp5" } });
  assert.match((await errorOf(basic)).message, /unknown scheme/);
});

Deno.test("parameters are decoded once, slashes included", async () => {
  const app = createTestApp([
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/models",
      auth: "public",
      handle: () => jsonReply("list"),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/models/:id{.+}",
      auth: "public",
      params: Type.Object({ id: Type.String() }),
      handle: (call) => jsonReply(call.params.id),
    }),
    defineRoute({
      ...facts,
      method: "GET",
      path: "/v1/sessions/:id/messages",
      auth: "public",
      params: Type.Object({ id: Type.String() }),
      handle: (call) => jsonReply(`messages of ${call.params.id}`),
    }),
  ]);
  const get = async (path: string) => (await app.request(path)).json();
  assert.equal(await get("/v1/models"), "list");
  assert.equal(await get("/v1/models/provider%2Fmodel"), "provider/model");
  assert.equal(await get("/v1/models/provider/model"), "provider/model");
  assert.equal(await get("/v1/models/a%252Fb"), "a%2Fb");
  assert.equal(await get("/v1/models/caf%C3%A9"), "café");
  assert.equal(await get("/v1/sessions/ses_1/messages"), "messages of ses_1");
  assert.equal((await app.request("/v1/models/%FF")).status, 400);
  assert.equal((await app.request("/v1/%6dodels")).status, 404);
});

Deno.test("unknown paths, wrong methods and HEAD", async () => {
  const app = createTestApp(levels);
  const unknown = await app.request("/nowhere");
  assert.equal(unknown.status, 404);
  assert.equal((await errorOf(unknown)).code, "unknown_url");
  const wrong = await app.request("/public", { method: "DELETE" });
  assert.equal(wrong.status, 405);
  assert.equal(wrong.headers.get("allow"), "GET, HEAD");
  assert.equal((await errorOf(wrong)).code, "method_not_allowed");
  assert.equal((await app.request("/public", { method: "HEAD" })).status, 200);
});

Deno.test("a request id is kept when sane, else made", async () => {
  const app = createTestApp(levels);
  const idFor = async (given: string) => {
    const response = await app.request("/public", { headers: { "x-request-id": given } });
    return response.headers.get("x-request-id") ?? "";
  };
  assert.equal(await idFor("trace-1:2.b_c"), "trace-1:2.b_c");
  assert.match(await idFor("has space"), /^req_[0-9a-f]{32}$/);
  assert.match(await idFor("x".repeat(129)), /^req_/);
  assert.match(await idFor("<script>"), /^req_/);
});

Deno.test("overhead is the time to the head without the upstream's", async () => {
  const clock = createFakeClock();
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/",
    auth: "public",
    async handle(call) {
      await clock.advance(50);
      call.addUpstreamWait(40);
      return emptyReply(200);
    },
  });
  const app = createTestApp([route], { clock });
  const response = await app.request("/");
  assert.equal(response.headers.get("x-loophub-overhead-ms"), "10.00");
});

Deno.test("the end of a request is told with times in hundredths of a millisecond", async () => {
  const clock = createFakeClock();
  const seen: RequestFacts[] = [];
  const app = createTestApp([
    defineRoute({
      ...facts,
      method: "GET",
      path: "/",
      auth: "public",
      async handle() {
        await clock.advance(1.23456);
        return jsonReply({});
      },
    }),
  ], { clock, observe: (facts) => void seen.push(facts) });
  await (await app.request("/")).body?.cancel();
  assert.deepEqual(seen.map(({ durationMs, overheadMs }) => [durationMs, overheadMs]), [
    [1.23, 1.23],
  ]);
});

Deno.test("errors keep their code, param and retry time; unknown ones tell nothing", async () => {
  const thrown: Record<string, unknown> = {
    limit: new HubError("rate_limit_exceeded", "Too many", { retryAfterMs: 1500 }),
    upstream: new HubError("upstream_rejected", "Too long", {
      status: 422,
      clientCode: "context_length_exceeded",
      param: "messages",
    }),
    secret: new TypeError("cannot read password hunter2"),
  };
  const lines: string[] = [];
  const log = {
    ...SILENT_LOG,
    error: (message: string) => void lines.push(message),
    with: () => log,
  };
  const app = createTestApp([
    defineRoute({
      ...facts,
      method: "GET",
      path: "/:which",
      auth: "public",
      params: Type.Object({ which: Type.String() }),
      handle(call): never {
        throw thrown[call.params.which];
      },
    }),
  ], { log });
  const limit = await app.request("/limit");
  assert.equal(limit.status, 429);
  assert.equal(limit.headers.get("retry-after"), "2");
  assert.equal(limit.headers.get("retry-after-ms"), "1500");
  assert.equal(limit.headers.get("x-should-retry"), null);
  const upstream = await app.request("/upstream");
  assert.equal(upstream.status, 422);
  assert.deepEqual(await errorOf(upstream), {
    message: "Too long",
    type: "invalid_request_error",
    param: "messages",
    code: "context_length_exceeded",
  });
  const secret = await app.request("/secret");
  assert.equal(secret.status, 500);
  assert.doesNotMatch(await secret.text(), /hunter2|TypeError/);
  assert.deepEqual(lines, ["A request failed"]);
});

Deno.test("every request is told once, with its route's pattern", async () => {
  const told: RequestFacts[] = [];
  const app = createTestApp(levels, { observe: (facts) => told.push(facts) });
  await app.request("/user", { headers: bearer(USER.token) });
  await app.request("/user");
  await app.request("/zz");
  const seen = told.map(({ route, status, outcome, errorCode, keyId }) => ({
    route,
    status,
    outcome,
    errorCode,
    keyId,
  }));
  assert.deepEqual(seen, [
    {
      route: "/user",
      status: 200,
      outcome: "done",
      errorCode: null,
      keyId: `key_${USER.lookupId}`,
    },
    { route: "/user", status: 401, outcome: "done", errorCode: "invalid_api_key", keyId: null },
    { route: "unmatched", status: 404, outcome: "done", errorCode: "not_found", keyId: null },
  ]);
});

/** A route whose streamed answers end when the test says so, and an app with this room. */
function createRoom(room: { hub?: ConcurrencyGate; keys?: KeyGates }) {
  const ends: (() => void)[] = [];
  const stream = defineRoute({
    ...facts,
    method: "GET",
    path: "/stream",
    auth: "user",
    handle() {
      const more = deferred<Uint8Array | null>();
      ends.push(() => more.resolve(null));
      return streamReply({ pull: () => more.promise, cancel() {} }, { contentType: "text/plain" });
    },
  });
  const follow = defineRoute({
    ...facts,
    method: "GET",
    path: "/follow",
    auth: "user",
    takesRoom: false,
    handle: () => jsonReply({}),
  });
  const admission = new Admission({ hub: room.hub ?? null, keys: room.keys ?? null });
  const lines: unknown[] = [];
  const log: Log = {
    ...SILENT_LOG,
    writes: (level) => level === "info",
    info: (_, fields) => void lines.push(fields?.["errorCode"]),
  };
  const app = createTestApp([stream, follow, ...levels], { admission, log });
  const ask = (
    path: string,
    { key = USER, signal }: { key?: typeof USER; signal?: AbortSignal } = {},
  ) =>
    app.request(path, {
      headers: bearer(key.token),
      ...(signal === undefined ? {} : { signal }),
    });
  return { ask, ends, lines };
}

Deno.test("past its room the app refuses at once, and a streamed answer holds its place to its end", async () => {
  const hub = createTestGate(createFakeClock(), { max: 1, maxQueued: 0 });
  const { ask, ends } = createRoom({ hub });
  const held = await ask("/stream");
  const refused = await ask("/user");
  assert.equal(refused.status, 503);
  assert.equal(refused.headers.get("retry-after"), "1");
  assert.equal((await errorOf(refused)).code, "overloaded");
  assert.equal(hub.isIdle, false);
  ends[0]?.();
  await held.text();
  assert.ok(hub.isIdle);
  assert.equal((await ask("/user")).status, 200);
  assert.ok(hub.isIdle);
});

Deno.test("routes without a key, of admins, and those that only follow work are let in when the hub is full", async () => {
  const { ask, ends } = createRoom({
    hub: createTestGate(createFakeClock(), { max: 1, maxQueued: 0 }),
  });
  const held = await ask("/stream");
  assert.equal((await ask("/public")).status, 200);
  assert.equal((await ask("/admin", { key: ADMIN })).status, 200);
  assert.equal((await ask("/follow")).status, 200);
  assert.equal((await ask("/user")).status, 503);
  // A key that is wrong is told so: strangers take no room.
  assert.equal((await ask("/user", { key: makeApiKey(randomBytes) })).status, 401);
  ends[0]?.();
  await held.text();
});

Deno.test("requests wait for their turn, and one whose client leaves meanwhile never runs", async () => {
  const tally = createTally();
  const hub = createTestGate(createFakeClock(), { max: 1, tally });
  const { ask, ends } = createRoom({ hub });
  const held = await ask("/stream");
  const abort = new AbortController();
  const leaving = ask("/stream", { signal: abort.signal });
  const patient = ask("/user");
  await settle();
  assert.equal(tally.waiting, 2);
  abort.abort(clientLeft());
  assert.equal((await leaving).status, 499);
  ends[0]?.();
  await held.text();
  assert.equal((await patient).status, 200);
  assert.equal(ends.length, 1);
  assert.ok(hub.isIdle);
});

Deno.test("a key that asks for too much gets 429 and holds up no other key", async () => {
  const hub = createTestGate(createFakeClock(), { max: 2, maxQueued: 0 });
  const ofKeys = new Map<string, ConcurrencyGate>();
  const keys = new KeyGates({
    limitOf: (keyId) => keyId === `key_${USER.lookupId}` ? 1 : null,
    create(keyId, max) {
      const gate = createTestGate(createFakeClock(), {
        max,
        code: "rate_limit_exceeded",
        maxQueued: 1,
      });
      ofKeys.set(keyId, gate);
      return gate;
    },
  });
  const { ask, ends } = createRoom({ hub, keys });
  const held = await ask("/stream");
  const queued = ask("/user");
  await settle();
  const refused = await ask("/user");
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get("retry-after"), "1");
  const { code, type } = await errorOf(refused);
  assert.deepEqual([code, type], ["rate_limit_exceeded", "rate_limit_error"]);
  // What waits for its key has no place of the hub.
  assert.equal((await ask("/user", { key: ADMIN })).status, 200);
  ends[0]?.();
  await held.text();
  assert.equal((await queued).status, 200);
  assert.equal(ofKeys.size, 1);
  for (const gate of [hub, ...ofKeys.values()]) assert.ok(gate.isIdle);
});

Deno.test("a request refused by the hub gives the place of its key back", async () => {
  const hub = createTestGate(createFakeClock(), { max: 1, maxQueued: 0 });
  const gates: ConcurrencyGate[] = [];
  const keys = new KeyGates({
    limitOf: () => 2,
    create(_, max) {
      gates.push(createTestGate(createFakeClock(), { max }));
      return gates[gates.length - 1] ?? hub;
    },
  });
  const { ask, ends } = createRoom({ hub, keys });
  const held = await ask("/stream");
  for (let asked = 0; asked < 5; asked++) assert.equal((await ask("/user")).status, 503);
  ends[0]?.();
  await held.text();
  assert.equal((await ask("/user")).status, 200);
  for (const gate of [hub, ...gates]) assert.ok(gate.isIdle);
});

Deno.test("of many refusals the log has a few", async () => {
  const { ask, ends, lines } = createRoom({
    hub: createTestGate(createFakeClock(), { max: 1, maxQueued: 0 }),
  });
  const held = await ask("/stream");
  for (let asked = 0; asked < 100; asked++) await ask("/user");
  ends[0]?.();
  await held.text();
  const refused = lines.filter((code) => code === "overloaded").length;
  assert.ok(refused >= 10 && refused < 100, `${refused} lines`);
  assert.equal(lines.length, refused + 1);
});

Deno.test("web pages of other origins get nothing unless they are listed", async () => {
  const closed = createTestApp(levels);
  const from = (origin: string, host = "localhost:4141") => ({ headers: { origin, host } });
  for (const origin of ["https://evil.example", "null", "http://localhost:9999"]) {
    const response = await closed.request("/public", from(origin));
    assert.equal(response.status, 403, origin);
    assert.equal(response.headers.get("access-control-allow-origin"), null);
    await response.body?.cancel();
  }
  const own = await closed.request("/public", from("http://localhost:4141"));
  assert.equal(own.status, 200);
  assert.equal(own.headers.get("access-control-allow-origin"), null);

  const open = createTestApp(levels, { cors: { origins: ["https://app.example"] } });
  const listed = await open.request("/public", from("https://app.example"));
  assert.equal(listed.headers.get("access-control-allow-origin"), "https://app.example");
  const preflight = await open.request("/user", {
    method: "OPTIONS",
    headers: {
      origin: "https://app.example",
      "access-control-request-method": "POST",
      "access-control-request-headers": "Authorization, X-Stainless-Lang, X-Evil",
    },
  });
  assert.equal(preflight.status, 204);
  assert.equal(
    preflight.headers.get("access-control-allow-headers"),
    "authorization, x-stainless-lang",
  );
  assert.equal((await open.request("/public", from("https://app.example.evil"))).status, 403);
});

Deno.test("two routes of one method and path are a mistake", () => {
  const [route] = levels;
  assert.ok(route !== undefined);
  assert.throws(() => createTestApp([route, route]), /Two routes/);
});

Deno.test("a Response of another library is taken over", async () => {
  const route = defineRoute({
    ...facts,
    method: "GET",
    path: "/",
    auth: "public",
    handle: () => new Response("hello", { status: 203, headers: { "x-other": "1" } }),
  });
  const response = await createTestApp([route]).request("/");
  assert.equal(response.status, 203);
  assert.equal(response.headers.get("x-other"), "1");
  assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
  assert.equal(await response.text(), "hello");
});
