import assert from "node:assert/strict";
import { findCommand } from "../../src/cli/commands.ts";
import { toHubError } from "../../src/core/error.ts";
import type { Json, JsonObject } from "../../src/core/json.ts";
import { chatStream, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, loadTestConfig, type TestHub, withHub } from "../support/test_hub.ts";

/** What a door says to a value. */
interface Said {
  /** Null when it is taken. */
  code: string | null;
  message: string;
}

/** Tries a value of this size. */
type Door = (size: number) => Promise<Said>;

/** A bound of the service, and every door that leads to it. */
interface Bound {
  what: string;
  /** The largest size that is taken; one more is refused. */
  most: number;
  /** What every refusal names beside the bound. */
  names: RegExp;
  doors: Record<string, Door>;
}

const text = (size: number) => "x".repeat(size);
const list = (size: number, item: (index: number) => Json): Json[] =>
  Array.from({ length: size }, (_, index) => item(index));
const CALL = chatStream({ toolCalls: [{ name: "hub_current_time", arguments: {} }] });
const DONE = chatStream({ text: "Done" });
const TAKEN: Said = { code: null, message: "" };
const CODES: Readonly<Record<number, string>> = { 400: "invalid_request" };
const KEY_VARIABLE = "BOUNDS_TEST_PROVIDER_KEY";

async function saidBy(answer: Promise<Response>): Promise<Said> {
  const response = await answer;
  const body = await response.text();
  if (response.ok) return TAKEN;
  // Clients of the AI SDK show the body of an error as it is.
  if (body[0] !== "{") return { code: CODES[response.status] ?? "", message: body };
  const { code, message } = JSON.parse(body).error;
  return { code, message };
}

async function saidByThrowing(work: () => Promise<unknown>): Promise<Said> {
  try {
    await work();
    return TAKEN;
  } catch (error) {
    const { code, message } = toHubError(error);
    return { code, message };
  }
}

/** The ways into a hub that the rows try. */
function doorsOf(hub: TestHub, file: string) {
  let made = 0;
  const api = (path: string, body: Json, method = "POST") =>
    saidBy(hub.call(path, { method, body }));
  /** Runs a command in this process: what it refuses is thrown. */
  const cli = (name: string, ...args: string[]) =>
    saidByThrowing(async () => {
      const command = findCommand(name);
      assert.ok(command !== null);
      const code = await command.run([...args, "--config", file]);
      assert.equal(code, 0, `loophub ${name} ended with ${code}`);
    });
  return {
    api,
    cli,
    next: () => `b${++made}`,
    async key(): Promise<string> {
      const answer = await hub.call("/v1/admin/keys", { body: { name: "k" } });
      return (await answer.json()).key.id;
    },
    async session(): Promise<string> {
      return (await (await hub.call("/v1/sessions", { body: {} })).json()).id;
    },
    async provider(): Promise<string> {
      const body = { name: `b${++made}`, baseUrl: "http://127.0.0.1:9/v1", apiKey: "sk-short" };
      return (await (await hub.call("/v1/admin/providers", { body })).json()).id;
    },
    chat: (more: JsonObject, message: JsonObject = {}) =>
      api("/api/chat", {
        id: `chat-${++made}`,
        messages: [{
          id: `m${made}`,
          role: "user",
          parts: [{ type: "text", text: "Hi" }],
          ...message,
        }],
        ...more,
      }),
    /** A run that waits for a person, with what it asks. */
    async waiting(): Promise<{ runId: string; approvalId: string }> {
      const answer = await hub.call(`/v1/sessions/${await this.session()}/messages`, {
        body: { text: "Ask", agent: "careful" },
      });
      const runId = answer.headers.get("x-loophub-run") ?? "";
      void answer.body?.cancel();
      const approvals = await eventually(async () => {
        const asked = await (await hub.call(`/v1/runs/${runId}/approvals`)).json();
        return asked.approvals.length > 0 ? asked.approvals : null;
      });
      return { runId, approvalId: approvals[0].id };
    },
  };
}

function boundsOf(hub: TestHub & { dataDir: string }, file: string): Bound[] {
  const door = doorsOf(hub, file);
  const { api, cli, key, chat } = door;
  /** The four ways to say something of a key. */
  const ofKey = (
    body: (size: number) => JsonObject,
    args: (size: number) => string[],
  ): Record<string, Door> => ({
    "POST key": (size) => api("/v1/admin/keys", { name: "k", ...body(size) }),
    "PATCH key": async (size) => api(`/v1/admin/keys/${await key()}`, body(size), "PATCH"),
    "keys create": (size) => cli("keys", "create", "k", ...args(size)),
    "keys set": async (size) => cli("keys", "set", await key(), ...args(size)),
  });
  const ofPolicy = (
    policy: (size: number) => JsonObject,
    args: (size: number) => string[],
  ) => ofKey((size) => ({ policy: policy(size) }), args);
  const tokenOf = (keyId: string, chat = "c") => {
    const args: [string, ...string[]] = ["keys", "token", keyId, "--agent", "default"];
    return [...args, "--chat", chat] as const;
  };
  const posted = async (body: JsonObject) =>
    await api(`/v1/sessions/${await door.session()}/messages`, { stream: false, ...body });
  const fileNamed = (filename: string, mediaType = "text/plain"): JsonObject => ({
    type: "file",
    mediaType,
    url: "data:text/plain;base64,SGk=",
    filename,
  });
  const ofFile = (part: (size: number) => JsonObject): Record<string, Door> => {
    const parts = (size: number) => [{ type: "text", text: "Hi" }, part(size)];
    return {
      "POST message": (size) => posted({ parts: parts(size) }),
      "/api/chat": (size) => chat({}, { parts: parts(size) }),
    };
  };
  const configured = (part: JsonObject) =>
    saidByThrowing(() =>
      loadTestConfig(part, { databaseUrl: hub.databaseUrl, dataDir: hub.dataDir })
    );
  const provider = (apiKey: string): JsonObject => ({ baseUrl: "http://127.0.0.1:9/v1", apiKey });
  const bounds: Bound[] = [
    {
      what: "days for which a rotated key's old token holds, in seconds",
      most: 30 * 24 * 3600,
      names: /graceSeconds/,
      doors: {
        "POST rotate": async (size) =>
          api(`/v1/admin/keys/${await key()}/rotate`, { graceSeconds: size }),
        // Options take six digits: minutes where they fit, hours past the bound.
        "keys rotate": async (size) =>
          cli("keys", "rotate", await key(), "--grace", size > 2_592_000 ? "721h" : "30d"),
      },
    },
    {
      what: "a key's name",
      most: 100,
      names: /name/,
      doors: {
        "POST key": (size) => api("/v1/admin/keys", { name: text(size) }),
        "PATCH key": async (size) =>
          api(`/v1/admin/keys/${await key()}`, { name: text(size) }, "PATCH"),
        "keys create": (size) => cli("keys", "create", text(size)),
        "keys set": async (size) => cli("keys", "set", await key(), "--name", text(size)),
      },
    },
    {
      what: "a key's owner",
      most: 200,
      names: /owner/,
      doors: ofKey((size) => ({ owner: text(size) }), (size) => ["--owner", text(size)]),
    },
    {
      what: "a tag of a key",
      most: 64,
      names: /tags/,
      doors: ofKey((size) => ({ tags: [text(size)] }), (size) => ["--tag", text(size)]),
    },
    {
      what: "tags of a key",
      most: 50,
      names: /tags/,
      doors: ofKey(
        (size) => ({ tags: list(size, (index) => `t${index}`) }),
        (size) => list(size, (index) => index).flatMap((index) => ["--tag", `t${index}`]),
      ),
    },
    {
      what: "models of a key's policy",
      most: 200,
      names: /policy\.models/,
      doors: ofPolicy(
        (size) => ({ models: list(size, (index) => `m${index}`) }),
        (size) => list(size, (index) => index).flatMap((index) => ["--model", `m${index}`]),
      ),
    },
    {
      what: "a model's name in a key's policy",
      most: 300,
      names: /policy\.models/,
      doors: ofPolicy((size) => ({ models: [text(size)] }), (size) => ["--model", text(size)]),
    },
    {
      what: "calls of a key in a minute",
      most: 1e12,
      names: /policy\.requestsPerMinute/,
      doors: ofPolicy((size) => ({ requestsPerMinute: size }), (size) => ["--rpm", `${size}`]),
    },
    {
      what: "age of cached answers in seconds, of a key's requests",
      most: 30 * 24 * 3600,
      names: /policy\.cacheSeconds/,
      doors: ofPolicy(
        (size) => ({ cacheSeconds: size }),
        (size) => ["--cache", size > 2_592_000 ? "721h" : "30d"],
      ),
    },
    {
      what: "a provider's key",
      most: 10_000,
      names: /apiKey/,
      doors: {
        "POST provider": (size) =>
          api("/v1/admin/providers", { name: door.next(), ...provider(text(size)) }),
        "PATCH provider": async (size) =>
          api(`/v1/admin/providers/${await door.provider()}`, { apiKey: text(size) }, "PATCH"),
        "POST rotate": async (size) =>
          api(`/v1/admin/providers/${await door.provider()}/rotate`, { apiKey: text(size) }),
        "providers add": (size) => {
          Deno.env.set(KEY_VARIABLE, text(size));
          const address = ["--base-url", "http://127.0.0.1:9/v1"];
          return cli("providers", "add", door.next(), ...address, "--key-env", KEY_VARIABLE);
        },
        "configuration": (size) =>
          configured({
            providers: { p: { ...provider(text(size)), models: ["m"] } },
            defaultModel: "p/m",
          }),
      },
    },
    {
      what: "a session's title",
      most: 500,
      names: /title/,
      doors: {
        "POST session": (size) => api("/v1/sessions", { title: text(size) }),
        "PATCH session": async (size) =>
          api(`/v1/sessions/${await door.session()}`, { title: text(size) }, "PATCH"),
      },
    },
    {
      what: "the application's id of a session or chat",
      most: 200,
      names: /externalId|id|chatId/,
      doors: {
        "POST session": (size) => api("/v1/sessions", { externalId: text(size) }),
        "/api/chat": (size) => chat({ id: text(size) }),
      },
    },
    {
      what: "seconds for which a browser token is valid",
      most: 3600,
      names: /seconds/i,
      doors: {
        "POST browser token": (size) =>
          api("/v1/browser-tokens", { agent: "default", chatId: "c", ttlSeconds: size }),
        "keys token": async (size) =>
          cli(...tokenOf(await key()), "--ttl", size > 3600 ? "3601s" : "1h"),
      },
    },
    {
      what: "the chat of a browser token",
      most: 200,
      names: /chat/,
      doors: {
        "POST browser token": (size) =>
          api("/v1/browser-tokens", { agent: "default", chatId: text(size) }),
        "keys token": async (size) => cli(...tokenOf(await key(), text(size))),
      },
    },
    {
      what: "a client's id of a message",
      most: 200,
      names: /\bid\b/,
      doors: {
        "POST message": (size) => posted({ id: text(size), text: "Hi" }),
        "/api/chat": (size) => chat({}, { id: text(size) }),
        "POST steer": async (size) =>
          api(`/v1/runs/${(await door.waiting()).runId}/steer`, { id: text(size), text: "Hi" }),
      },
    },
    {
      what: "parts of a message",
      most: 100,
      names: /parts/,
      doors: {
        "POST message": (size) =>
          posted({ parts: list(size, () => ({ type: "text", text: "a" })) }),
        "/api/chat": (size) => chat({}, { parts: list(size, () => ({ type: "text", text: "a" })) }),
      },
    },
    {
      what: "a file's name in a message",
      most: 1000,
      names: /filename/,
      doors: ofFile((size) => fileNamed(text(size))),
    },
    {
      what: "a file's media type in a message",
      most: 200,
      names: /mediaType/,
      doors: ofFile((size) => fileNamed("a", `text/${text(size - 5)}`)),
    },
    {
      what: "a text said to a run",
      most: 100_000,
      names: /text/,
      doors: {
        "POST steer": async (size) =>
          api(`/v1/runs/${(await door.waiting()).runId}/steer`, { text: text(size) }),
        "runs steer": async (size) =>
          cli("runs", "steer", (await door.waiting()).runId, text(size)),
      },
    },
    {
      what: "the reason of a denial",
      most: 2000,
      names: /reason/,
      doors: {
        "POST approval": async (size) => {
          const { runId, approvalId } = await door.waiting();
          const body = { approved: false, reason: text(size) };
          return api(`/v1/runs/${runId}/approvals/${approvalId}`, body);
        },
        "runs deny": async (size) => {
          const { runId, approvalId } = await door.waiting();
          return cli("runs", "deny", runId, approvalId, text(size));
        },
      },
    },
    {
      what: "milliseconds of a run's budget",
      most: 2_000_000_000,
      names: /budget\.wallTimeMs/,
      doors: {
        "POST message": (size) => posted({ text: "Hi", budget: { wallTimeMs: size } }),
        "/api/chat": (size) => chat({ budget: { wallTimeMs: size } }),
        "agent as a model": (size) =>
          api("/v1/chat/completions", {
            model: "agent/default",
            messages: [{ role: "user", content: "Hi" }],
            budget: { wallTimeMs: size },
          }),
        "run": (size) => cli("run", "Hi", "--budget", size > 2e9 ? "time=33334m" : "time=33333m"),
      },
    },
  ];
  return bounds;
}

/** The codes by which doors refuse: the configuration is read at the start, where no request is there to be refused. */
const codeOf = (door: string) =>
  door === "configuration" ? "invalid_configuration" : "invalid_request";

Deno.test("every bound reachable by two doors holds at each of them", async (t) => {
  const upstream = await startScriptedUpstream(({ text, json }) =>
    json["messages"] !== undefined && text.includes('"Ask"') && !text.includes('"tool"')
      ? CALL
      : DONE
  );
  const config = {
    providers: { one: { baseUrl: upstream.url } },
    defaultModel: "one/m",
    agents: { default: {}, careful: { approvals: { ask: ["hub.current_*"] } } },
  };
  try {
    await withHub(config, async (hub) => {
      const file = `${hub.dataDir}/loophub.json`;
      const database = { url: hub.databaseUrl, dataDir: hub.dataDir };
      await Deno.writeTextFile(file, JSON.stringify({ ...config, database }));
      for (const { what, most, names, doors } of boundsOf(hub, file)) {
        await t.step(`${what}: ${most}`, async () => {
          assert.ok(Object.keys(doors).length >= 2);
          for (const [name, door] of Object.entries(doors)) {
            const refused = await door(most + 1);
            assert.equal(refused.code, codeOf(name), `${name} at ${most + 1}: ${refused.message}`);
            assert.match(refused.message, names, name);
            assert.ok(refused.message.includes(`${most}`), `${name}: ${refused.message}`);
            const taken = await door(most);
            assert.equal(taken.code, null, `${name} at ${most}: ${taken.message}`);
          }
        });
      }
    });
  } finally {
    Deno.env.delete(KEY_VARIABLE);
    await upstream.stop();
  }
});
