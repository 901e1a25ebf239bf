import assert from "node:assert/strict";
import { chatError, type Reply, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually, type TestHub, withHub } from "../support/test_hub.ts";
import { usageOf } from "../support/usage_of.ts";

const PRICING = { inputPerMillion: 1, outputPerMillion: 2 };
const TOLD = { input_tokens: 10, output_tokens: 20, total_tokens: 30 };
const SILENT = { data: [{ b64_json: "AAAA" }] };
const HARD = { budgets: { total: { hardMicros: 1_000_000 } } };
const PICTURE = { model: "openai/image", prompt: "a cat" };
const HANGING: Reply = { frames: [{ wait: new Promise(() => {}) }] };
/** Its reservation: a token for two bytes of what goes on, and the model's own limit. */
const RESERVED = Math.ceil(JSON.stringify({ model: "image", prompt: "a cat" }).length / 2) + 2000;

Deno.test("money and tokens of what passes through", async (t) => {
  const upstream = await startScriptedUpstream({ body: SILENT });
  const config = {
    providers: {
      openai: {
        baseUrl: upstream.url,
        apiKey: "sk-own",
        maxRetries: 0,
        models: {
          image: { pricing: PRICING, maxOutputTokens: 1000 },
          endless: { pricing: PRICING },
          judge: { pricing: PRICING },
          unpriced: { maxOutputTokens: 1000 },
        },
      },
    },
    models: { either: { targets: ["openai/endless", "openai/image"] } },
    defaultModel: "openai/image",
  };
  try {
    await withHub(config, async (hub) => {
      const keyWith = (policy: object) => makeKey(hub, policy);
      const said = async (answer: Promise<Response>) => {
        const { status, body } = await readAnswer(answer);
        return [status, body.error?.code];
      };
      /** The only row of a key, once it is written. */
      const rowOf = (id: string, kind: string) =>
        eventually(async () => {
          const rows = await usageOf(hub, kind);
          return rows.find((row) => String(row["key_id"]).replaceAll("-", "") === id.slice(4));
        });
      const spendOf = async (id: string) => {
        const { spend } = await (await hub.call(`/v1/admin/keys/${id}`)).json();
        return spend.find((window: { id: string }) => window.id === "total");
      };
      const spent = (id: string, micros: number) =>
        eventually(async () => {
          const total = await spendOf(id);
          return total?.spentMicros === micros && total.reservedMicros === 0 ? total : null;
        });
      const leaveWhileAwaited = async (ask: (signal: AbortSignal) => Promise<Response>) => {
        upstream.script(HANGING);
        const leave = new AbortController();
        const before = upstream.requests.length;
        const asking = ask(leave.signal).catch(() => {});
        await upstream.until(() => upstream.requests.length > before);
        leave.abort();
        await asking;
        upstream.script({ body: SILENT });
      };

      await t.step("what costs nothing is no matter of budgets, be they spent", async () => {
        const { call, id } = await keyWith({
          ...HARD,
          budgets: { total: { hardMicros: 0 } },
          tokensPerMinute: 1,
        });
        for (const path of ["/v1/files", "/v1/batches/b_1", "/v1/files/f_1/content"]) {
          assert.deepEqual(await said(call(path)), [200, undefined], path);
        }
        assert.equal((await call("/v1/batches/b_1/cancel", { method: "POST" })).status, 200);
        const row = await rowOf(id, "files");
        assert.deepEqual([row["cost_micros"], row["budget_windows"]], [null, null]);
      });

      await t.step("what cannot be told before is refused where it must be", async () => {
        const form = { body: new FormData() };
        form.body.set("model", "openai/image");
        form.body.set("file", new Blob(["sound"]), "a.mp3");
        const before = upstream.requests.length;
        for (const policy of [HARD, { tokensPerMinute: 1000 }]) {
          const { call, id, token } = await keyWith(policy);
          for (
            const path of [
              "/v1/batches",
              "/v1/fine_tuning/jobs",
              "/v1/videos",
              "/v1/videos/v_1/remix",
              "/v1/vector_stores",
              "/v1/vector_stores/vs_1/search",
              "/v1/vector_stores/vs_1/files",
            ]
          ) {
            const asking = call(path, { body: { model: "openai/image" } });
            assert.deepEqual(await said(asking), [403, "unbounded_cost"], path);
          }
          for (const path of ["/v1/audio/transcriptions", "/v1/images/edits"]) {
            const headers = { authorization: `Bearer ${token}` };
            const asking = fetch(hub.url + path, { method: "POST", headers, ...form });
            const { status, body: { error } } = await readAnswer(asking);
            assert.deepEqual([status, error.type, error.code], [
              403,
              "permission_error",
              "unbounded_cost",
            ]);
            assert.match(
              error.message,
              /requests whose (cost|tokens) cannot be calculated before they are sent/,
            );
          }
          assert.equal((await spendOf(id))?.spentMicros ?? 0, 0);
        }
        assert.equal(upstream.requests.length, before);
      });

      await t.step("a hard budget wants a price and a limit, of any target", async () => {
        const { call, id } = await keyWith(HARD);
        const before = upstream.requests.length;
        const asked = (model: string) =>
          said(call("/v1/images/generations", { body: { ...PICTURE, model } }));
        assert.deepEqual(await asked("openai/unpriced"), [403, "unknown_price"]);
        assert.deepEqual(await asked("openai/endless"), [403, "unbounded_cost"]);
        assert.equal(upstream.requests.length, before);
        upstream.script({ body: { ...SILENT, usage: TOLD } });
        assert.deepEqual(await asked("either"), [200, undefined]);
        assert.equal(upstream.requests.at(-1)?.json.model, "image");
        await spent(id, 50);
        const row = await rowOf(id, "images");
        assert.deepEqual([row["cost_micros"], row["estimated"]], ["50", false]);
      });

      await t.step("the reservation is the model's limit, once for each answer", async () => {
        const { call } = await keyWith({ budgets: { total: { hardMicros: 2500 } } });
        const asked = (more: object) =>
          said(call("/v1/images/generations", { body: { ...PICTURE, ...more } }));
        assert.deepEqual(await asked({ n: 2 }), [429, "insufficient_quota"]);
        assert.deepEqual(await asked({ n: 2, max_tokens: 1 }), [400, "field_not_allowed"]);
        const most = Number.MAX_SAFE_INTEGER;
        assert.deepEqual(await asked({ n: most }), [429, "insufficient_quota"]);
        for (const n of ["2", 0, 1.5, [1]]) assert.equal((await asked({ n }))[0], 400);
        assert.deepEqual(await asked({ n: null }), [200, undefined]);
        const completions = await keyWith({ budgets: { total: { hardMicros: 20_000 } } });
        const complete = (more: object) =>
          said(completions.call("/v1/completions", {
            body: { model: "openai/image", prompt: ["a", "b"], max_tokens: 1000, ...more },
          }));
        assert.deepEqual(await complete({ best_of: 10 }), [429, "insufficient_quota"]);
        assert.deepEqual(await complete({ max_tokens: 1e15 }), [429, "insufficient_quota"]);
        assert.deepEqual(await complete({ max_tokens: 1e300 }), [400, "field_not_allowed"]);
      });

      await t.step("what nobody tells is charged as it was reserved", async () => {
        upstream.script({ body: SILENT });
        const silent = await keyWith(HARD);
        await (await silent.call("/v1/images/generations", { body: PICTURE })).body?.cancel();
        await spent(silent.id, RESERVED);
        const left = await keyWith(HARD);
        await leaveWhileAwaited((signal) =>
          left.call("/v1/images/generations", { body: PICTURE, signal })
        );
        await spent(left.id, RESERVED);
        for (
          const [{ id }, outcome] of [[silent, "ok"], [left, "aborted"]] as const
        ) {
          const row = await rowOf(id, "images");
          assert.deepEqual(
            [row["outcome"], row["prompt_tokens"], row["cost_micros"], row["estimated"]],
            [outcome, null, String(RESERVED), true],
          );
        }
      });

      await t.step("what a provider refuses costs nothing", async () => {
        for (const status of [400, 429, 500]) {
          upstream.script(chatError(status));
          const { call, id } = await keyWith(HARD);
          await (await call("/v1/images/generations", { body: PICTURE })).body?.cancel();
          const row = await rowOf(id, "images");
          assert.deepEqual(
            [row["outcome"], row["status"], row["cost_micros"], row["estimated"]],
            ["error", status, null, false],
          );
          await spent(id, 0);
        }
        upstream.script({ body: SILENT });
      });

      await t.step("without a budget the unknown stays unknown", async () => {
        const { call, id } = await keyWith({});
        await leaveWhileAwaited((signal) =>
          call("/v1/images/generations", { body: PICTURE, signal })
        );
        const row = await rowOf(id, "images");
        assert.deepEqual(
          [row["outcome"], row["prompt_tokens"], row["cost_micros"], row["estimated"]],
          ["aborted", null, null, false],
        );
      });

      await t.step("what its text alone costs is estimated by it, aborted or not", async () => {
        const body = { model: "openai/judge", input: "x".repeat(400) };
        const tokens = Math.ceil(JSON.stringify({ ...body, model: "judge" }).length / 4);
        const expected = ["aborted", String(tokens), "0", String(tokens), true];
        for (const path of ["/v1/moderations", "/v1/rerank", "/v1/embeddings"]) {
          const { call, id } = await keyWith(HARD);
          await leaveWhileAwaited((signal) => call(path, { body, signal }));
          const kind = path.slice("/v1/".length);
          const row = await rowOf(id, kind);
          const got = ["outcome", "prompt_tokens", "completion_tokens", "cost_micros", "estimated"]
            .map((name) => row[name]);
          assert.deepEqual(got, expected, path);
          await spent(id, tokens);
          const silent = await keyWith(HARD);
          upstream.script({ body: { results: [], data: [] } });
          await (await silent.call(path, { body })).body?.cancel();
          const whole = await rowOf(silent.id, kind);
          assert.deepEqual([whole["prompt_tokens"], whole["estimated"]], [String(tokens), true]);
          await spent(silent.id, tokens);
        }
      });

      await t.step("a soft budget refuses nothing and counts what is told", async () => {
        const { token, id } = await keyWith({ budgets: { total: { softMicros: 1 } } });
        upstream.script({ body: { text: "x", usage: TOLD } });
        const form = new FormData();
        form.set("model", "openai/image");
        form.set("file", new Blob(["x".repeat(100_000)]), "a.mp3");
        const send = () =>
          fetch(`${hub.url}/v1/audio/transcriptions`, {
            method: "POST",
            headers: { authorization: `Bearer ${token}` },
            body: form,
          });
        await (await send()).body?.cancel();
        await spent(id, 50);
        upstream.script({ body: { text: "x" } });
        const warned = await send();
        await warned.body?.cancel();
        assert.match(warned.headers.get("x-loophub-budget-warning") ?? "", /total budget/);
        await spent(id, 50);
      });
    });
    await upstream.until(() => upstream.open === 0);
  } finally {
    await upstream.stop();
  }
});

async function makeKey(hub: TestHub, policy: object) {
  const made = await hub.call("/v1/admin/keys", { body: { name: "k", policy: { ...policy } } });
  const { key, token } = await made.json();
  const headers = { authorization: `Bearer ${token}` };
  return {
    id: String(key.id),
    token: String(token),
    call: (path: string, options: Parameters<TestHub["call"]>[1] = {}) =>
      hub.call(path, { ...options, headers }),
  };
}

async function readAnswer(asking: Promise<Response>) {
  const answer = await asking;
  return { status: answer.status, body: await answer.json() };
}
