import assert from "node:assert/strict";
import postgres from "postgres";
import { startHubProcess } from "../support/hub_process.ts";
import { descendantsOf, filesOf } from "../support/machine_view.ts";
import { chatCompletion, chatError, startScriptedUpstream } from "../support/scripted_upstream.ts";
import { eventually } from "../support/test_hub.ts";

/** One of each place that a secret comes in by. */
const PROVIDER_KEY = "canary-provider-key-7f31";
const PROVIDER_HEADER = "canary-provider-header-92ab";
const HEADER = "canary-client-header-55cd";
const QUERY = "canary-url-query-0e1f";
const BODY = "canary-body-text-c3d4";

Deno.test("a secret in any input comes out nowhere", async (t) => {
  const folder = await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-canary-" });
  await Deno.chmod(folder, 0o755);
  const upstream = await startScriptedUpstream();
  const echo = `${PROVIDER_KEY} ${PROVIDER_HEADER} is wrong, says https://x:${PROVIDER_KEY}@up/`;
  upstream.script(({ path }, index) => {
    const turn = index % 4;
    // What passes through as a success is the provider's word, byte for byte.
    if (turn === 1 || path.includes("/moderations")) return chatError(500, { message: echo });
    if (turn === 2) return chatError(401, { message: echo, headers: { "x-echo": PROVIDER_KEY } });
    if (turn === 3) return { headers: { "content-type": "application/json" }, body: `{"${echo}` };
    return chatCompletion({ text: "fine" });
  });
  const provider = {
    baseUrl: upstream.url,
    apiKey: "${UP_KEY}",
    headers: { "x-team": "${TEAM}" },
    maxRetries: 1,
  };
  const config = {
    log: { level: "debug" },
    providers: { up: provider, ant: { ...provider, kind: "anthropic" } },
    defaultModel: "up/m",
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const hub = await startHubProcess(folder, { UP_KEY: PROVIDER_KEY, TEAM: PROVIDER_HEADER });
  let isOver = false;
  try {
    const key = await eventually(() => hub.key());
    const seen: string[] = [];
    const send = async (path: string, token: string, body?: unknown) => {
      const answer = await fetch(`${hub.url}${path}?api_key=${QUERY}&token=${QUERY}`, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          cookie: `session=${HEADER}`,
          "x-custom": HEADER,
          "user-agent": HEADER,
          "x-base-url": `http://${HEADER}/`,
          referer: `http://${HEADER}/`,
        },
        ...(body === undefined
          ? {}
          : { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const fields = [...answer.headers].map(([name, value]) => `${name}: ${value}`);
      const { model = "", stream = false } = (body ?? {}) as { model?: string; stream?: boolean };
      const what = `${path} ${model} ${stream} ${answer.status}`;
      seen.push([what, ...fields, await answer.text()].join("\n"));
      return answer.status;
    };
    const messages = [{ role: "user", content: BODY }];
    const bad = key.slice(0, -4) + "AAAA";
    for (let round = 0; round < 4; round++) {
      for (const model of ["up/m", "ant/m"]) {
        for (const stream of [false, true]) {
          await send("/v1/chat/completions", key, { model, stream, messages, password: BODY });
          await send("/v1/messages", key, { model, stream, max_tokens: 9, messages });
          await send("/v1/responses", key, { model, stream, store: false, input: BODY });
        }
      }
      await send("/v1/embeddings", key, { model: "up/m", input: BODY });
      await send("/v1/completions", key, { model: "up/m", prompt: BODY });
      await send("/v1/moderations", key, { model: "up/m", input: BODY });
    }
    for (const path of ["/v1/models", "/v1/models/none", "/v1/nothing", "/v1/runs/run_x"]) {
      await send(path, key);
      await send(path, bad);
    }
    await send("/v1/chat/completions", bad, { model: "up/m", messages });
    await send("/v1/chat/completions", key, `{"model":"up/m","secret":"${BODY}"`);
    await send("/v1/chat/completions", key, { model: "up/m", messages: BODY, stream: BODY });
    await send("/v1/admin/keys", key, { name: "k", nothing: BODY });

    await t.step("not in answers, errors and their fields", () => {
      const text = seen.join("\n");
      for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, HEADER, QUERY, key]) {
        const found = seen.find((text) => text.includes(secret));
        assert.equal(found, undefined, secret);
      }
      assert.match(text, /upstream/);
    });

    await t.step("not at a provider that it is not for", () => {
      const got = upstream.requests.map(({ headers, path }) => JSON.stringify([headers, path]));
      assert.ok(got.length > 30 && got.every((text) => text.includes(PROVIDER_KEY)));
      for (const secret of [HEADER, key, bad]) {
        assert.ok(got.every((text) => !text.includes(secret)), secret);
      }
    });

    await t.step("not in metrics", async () => {
      const answer = await fetch(`${hub.url}/metrics`, {
        headers: { authorization: `Bearer ${key}` },
      });
      const text = await answer.text();
      assert.match(text, /loophub_/);
      for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, HEADER, QUERY, BODY, key]) {
        assert.ok(!text.includes(secret), secret);
      }
    });

    await t.step("not in any row of any table", async () => {
      const sql = postgres(hub.psql, { max: 1 });
      try {
        await eventually(async () =>
          (await sql`select 1 from hub.usage limit 1`).length === 1 ? true : null
        );
        const tables = await sql<{ name: string }[]>`
          select relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = 'hub' and relkind in ('r', 'p')`;
        assert.ok(tables.length > 15);
        for (const { name } of tables) {
          const rows = await sql`select t::text as text from hub.${sql(name)} t`;
          for (const { text } of rows) {
            for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, HEADER, QUERY, BODY, key]) {
              assert.ok(!text.includes(secret), `${name}: ${secret}`);
            }
          }
        }
      } finally {
        await sql.end();
      }
    });

    await t.step("not with what the hub starts, its own Postgres among it", async () => {
      const started = (await descendantsOf(hub.pid)).filter(({ pid }) => pid !== hub.pid);
      assert.ok(started.some(({ cmdline }) => cmdline.includes("postgres")));
      const { password } = new URL(hub.psql);
      for (const { environ, cmdline } of started) {
        for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, key, password]) {
          assert.ok(!`${environ}\n${cmdline}`.includes(secret), `${cmdline}: ${secret}`);
        }
      }
    });

    await t.step(
      "in the data folder only where it is at home, readable by its owner alone",
      async () => {
        const { password } = new URL(hub.psql);
        const homes = new Map([["first-key", key], ["password", password]]);
        const files = await filesOf(`${folder}/data`, (name) => name !== "data" && name !== "pg");
        assert.ok(files.length > 4);
        for (const { path, text, mode } of files) {
          const name = path.slice(`${folder}/data/`.length);
          for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, key, password]) {
            assert.equal(text.includes(secret), homes.get(name) === secret, `${name}: ${secret}`);
          }
          if (homes.has(name) || name === "master.key") assert.equal(mode & 0o777, 0o600, name);
        }
      },
    );

    assert.equal(await hub.end("SIGINT"), 0);
    isOver = true;
    await t.step("not in the log, at its most talkative", () => {
      assert.match(hub.err(), /"level":"debug"/);
      for (const secret of [PROVIDER_KEY, PROVIDER_HEADER, HEADER, QUERY, BODY, key, bad]) {
        const line = hub.err().split("\n").find((line) => line.includes(secret));
        assert.equal(line, undefined, secret);
      }
    });
  } finally {
    if (!isOver) await hub.end("SIGINT");
    await upstream.stop();
    await Deno.remove(folder, { recursive: true });
  }
});
