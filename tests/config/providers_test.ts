import assert from "node:assert/strict";
import { KNOWN_PROVIDERS } from "../../src/config/known_providers.ts";
import { makeApiKey } from "../../src/policy/api_key.ts";
import { load, loadText, LOCAL, refusal } from "./load_fixture.ts";

Deno.test("each known variable enables its provider, with its address, key and default model", async () => {
  for (const { name, envVar, baseUrl, defaultModel } of KNOWN_PROVIDERS) {
    const { config, secrets, keySources, notes } = await load({
      env: { [envVar]: "key-canary-1" },
    });
    assert.deepEqual(Object.keys(config.providers), [name]);
    assert.equal(config.providers[name]?.kind, name);
    assert.equal(config.providers[name]?.baseUrl, baseUrl);
    assert.equal(config.providers[name]?.apiKey, "key-canary-1");
    assert.equal(config.providers[name]?.models, undefined);
    assert.equal(config.defaultModel, `${name}/${defaultModel}`);
    assert.deepEqual(secrets, ["key-canary-1"]);
    assert.equal(keySources[name], envVar);
    assert.deepEqual(notes, [`Provider ${name} is used because ${envVar} is set`]);
  }
});

Deno.test("a vendor's other variable counts where its first one is not set", async () => {
  const other = await load({ env: { GOOGLE_API_KEY: "key-canary-1", GEMINI_API_KEY: "" } });
  assert.equal(other.config.providers.google?.apiKey, "key-canary-1");
  assert.equal(other.keySources["google"], "GOOGLE_API_KEY");
  assert.deepEqual(other.notes, ["Provider google is used because GOOGLE_API_KEY is set"]);
  const both = await load({ env: { GOOGLE_API_KEY: "key-canary-1", GEMINI_API_KEY: "key-2" } });
  assert.equal(both.config.providers.google?.apiKey, "key-2");
});

Deno.test("the table of known providers is sound", () => {
  const names = new Set(KNOWN_PROVIDERS.map(({ name }) => name));
  assert.equal(names.size, KNOWN_PROVIDERS.length);
  for (const { baseUrl } of KNOWN_PROVIDERS) {
    assert.match(baseUrl, /^https:\/\/.*[^/]$/);
  }
});

Deno.test("variables count too when a file has no providers section, and not when it has one", async () => {
  const env = { GROQ_API_KEY: "key-canary-1", OPENAI_API_KEY: "key-canary-2", XAI_API_KEY: "" };
  const without = await loadText({ server: { port: 1 } }, { env });
  assert.deepEqual(Object.keys(without.config.providers), ["openai", "groq"]);
  const withSection = await loadText({ providers: { local: LOCAL } }, { env });
  assert.deepEqual(Object.keys(withSection.config.providers), ["local"]);
  const empty = await loadText({ providers: {} }, { env });
  assert.deepEqual(Object.keys(empty.config.providers), ["demo"]);
});

Deno.test("a key of a hub in a vendor's variable enables nothing and goes to no vendor", async () => {
  const env = { OPENAI_API_KEY: makeApiKey((length) => new Uint8Array(length)).token };
  const detected = await load({ env });
  assert.deepEqual(Object.keys(detected.config.providers), ["demo"]);
  assert.match(detected.notes[0] ?? "", /^OPENAI_API_KEY holds a key of a Loophub/);
  const named = await loadText({ providers: { openai: {} } }, { env });
  assert.equal(named.config.providers.openai?.apiKey, undefined);
  assert.match(named.notes[0] ?? "", /openai has no key here/);
});

Deno.test("a local Ollama is taken with its models, after keys, embedding models last", async () => {
  const origins: string[] = [];
  const probe = (origin: string) => {
    origins.push(origin);
    return Promise.resolve({
      models: [{ name: "nomic-embed-text:latest" }, { name: "llama3.2:3b" }, {
        name: "llama3.2:3b",
      }],
    });
  };
  const alone = await load({ probe });
  assert.deepEqual(origins, ["http://127.0.0.1:11434"]);
  assert.equal(alone.config.providers.ollama?.baseUrl, "http://127.0.0.1:11434/api");
  assert.deepEqual(alone.config.providers.ollama?.models, [
    "llama3.2:3b",
    "nomic-embed-text:latest",
  ]);
  assert.equal(alone.config.defaultModel, "ollama/llama3.2:3b");
  const both = await load({ probe, env: { OPENAI_API_KEY: "key-canary-1" } });
  assert.deepEqual(Object.keys(both.config.providers), ["openai", "ollama"]);
  assert.equal(both.config.defaultModel, "openai/gpt-5.4-mini");
});

Deno.test("an Ollama without models, and a probe that fails, leave the demo", async () => {
  const none = await load({ probe: () => Promise.resolve({ models: [] }) });
  assert.deepEqual(Object.keys(none.config.providers), ["demo"]);
  assert.match(none.notes.join("\n"), /has no models/);
  const failed = await load({ probe: () => Promise.reject(new Error("boom")) });
  assert.deepEqual(Object.keys(failed.config.providers), ["demo"]);
});

Deno.test("nobody looks for Ollama when providers are configured", async () => {
  let asked = 0;
  const probe = () => {
    asked++;
    return Promise.resolve(null);
  };
  await loadText({ providers: { local: LOCAL } }, { probe });
  assert.equal(asked, 0);
});

Deno.test("the kind is the name where that is one, else openai-compatible", async () => {
  const { config } = await loadText({
    providers: {
      groq: { apiKey: "k-canary-1" },
      mine: LOCAL,
      two: { kind: "openai", apiKey: "k-canary-2" },
    },
  });
  assert.equal(config.providers.groq?.kind, "groq");
  assert.equal(config.providers.mine?.kind, "openai-compatible");
  assert.equal(config.providers.two?.baseUrl, "https://api.openai.com/v1");
});

Deno.test("the environment's key goes to the vendor's own address and nowhere else", async () => {
  const env = { OPENAI_API_KEY: "key-canary-1" };
  const file = (baseUrl?: string, headers?: Record<string, string>) => ({
    providers: {
      openai: { models: ["m"], ...(baseUrl && { baseUrl }), ...(headers && { headers }) },
    },
  });
  const key = async (content: Record<string, unknown>) =>
    (await loadText(content, { env })).config.providers.openai?.apiKey;
  assert.equal(await key(file()), "key-canary-1");
  assert.equal(await key(file("https://api.openai.com/v1/")), "key-canary-1");
  assert.equal(await key(file("https://evil.example/v1")), undefined);
  assert.equal(await key(file("http://api.openai.com/v1")), undefined);
  assert.equal(await key(file("https://api.openai.com.evil.example/v1")), undefined);
  assert.equal(await key(file(undefined, { Authorization: "Bearer other" })), undefined);
});

Deno.test("a known provider without a key is told, not refused: the database may have one", async () => {
  const { notes, keySources } = await loadText({ providers: { openai: {} } });
  assert.match(notes.join("\n"), /Provider openai has no key here; set OPENAI_API_KEY/);
  assert.deepEqual({ ...keySources }, {});
});

Deno.test("base URLs are normalised", async () => {
  const cases: [Record<string, unknown>, string][] = [
    [{ baseUrl: "http://a/v1/" }, "http://a/v1"],
    [{ baseUrl: "HTTP://A.Example:80//" }, "http://a.example"],
    [{ baseUrl: "https://a/x/y///" }, "https://a/x/y"],
    [{ kind: "ollama", baseUrl: "http://gpu:11434" }, "http://gpu:11434/api"],
    [{ kind: "ollama", baseUrl: "http://gpu:11434/api/" }, "http://gpu:11434/api"],
    [{ kind: "ollama", baseUrl: "http://gpu:11434/v1" }, "http://gpu:11434/api"],
    [{ kind: "ollama", baseUrl: "http://gpu/llm/v1/" }, "http://gpu/llm/api"],
    [{ kind: "openai-compatible", baseUrl: "http://gpu:11434/v1" }, "http://gpu:11434/v1"],
    [{ kind: "anthropic", baseUrl: "https://a.test" }, "https://a.test/v1"],
    [{ kind: "anthropic", baseUrl: "https://a.test/v1/" }, "https://a.test/v1"],
    [{ kind: "anthropic", baseUrl: "https://a.test/anthropic" }, "https://a.test/anthropic/v1"],
    [{ kind: "google", baseUrl: "https://g.test" }, "https://g.test/v1beta"],
    [{ kind: "google", baseUrl: "https://g.test/v1beta/openai/" }, "https://g.test/v1beta"],
    [{ kind: "google", baseUrl: "https://g.test/v1" }, "https://g.test/v1"],
  ];
  for (const [provider, wanted] of cases) {
    const { config } = await loadText({ providers: { p: { models: ["m"], ...provider } } });
    assert.equal(config.providers.p?.baseUrl, wanted);
  }
});

Deno.test("base URLs that cannot work are refused with what is wrong", async () => {
  const cases: [string, RegExp][] = [
    ["ftp://a/v1", /begins with http/],
    ["file:///etc/passwd", /begins with http/],
    ["localhost:8000", /begins with http/],
    ["//a/v1", /begins with http/],
    ["http://", /begins with http/],
    ["http://user:canary-pass@a/v1", /without user and password/],
    ["http://a/v1?api-version=1", /without "\?"/],
    ["http://a/v1#x", /without "\?"/],
    ["http://a/v1/chat/completions", /the URL that \/chat\/completions is added to/],
    ["http://a/v1/messages", /the URL that \/messages is added to/],
  ];
  for (const [baseUrl, wanted] of cases) {
    const { message, paths } = await refusal(
      loadText({ providers: { p: { baseUrl, models: ["m"] } } }),
    );
    assert.deepEqual(paths, ["providers.p.baseUrl"]);
    assert.match(message, wanted);
    assert.ok(!message.includes("canary"));
  }
});

Deno.test("a provider the hub does not know needs its address, with a hint for a slip", async () => {
  const { message } = await refusal(loadText({ providers: { opnai: {} } }));
  assert.match(message, /providers\.opnai\.baseUrl .*got nothing.*did you mean "openai"/);
});

Deno.test("headers of the connection and of the body cannot be configured, in any case", async () => {
  const own = [
    "Host",
    "CONTENT-LENGTH",
    "Transfer-Encoding",
    "connection",
    "Keep-Alive",
    "proxy-connection",
    "TE",
    "Trailer",
    "Upgrade",
    "Expect",
    "Accept-Encoding",
    "Content-Type",
  ];
  for (const header of own) {
    const { paths, message } = await refusal(
      loadText({ providers: { a: { ...LOCAL, headers: { [header]: "canary" } } } }),
    );
    assert.deepEqual(paths, [`providers.a.headers.${header}`]);
    assert.match(message, /a header that the hub sets itself/);
    assert.ok(!message.includes("canary"));
  }
});

Deno.test("keys and headers must fit into a header", async () => {
  const { paths, message } = await refusal(loadText({
    providers: {
      a: { ...LOCAL, apiKey: "canary with space" },
      b: { ...LOCAL, apiKey: "canary\n" },
      c: {
        ...LOCAL,
        headers: {
          "x y": "1",
          Host: "h",
          "Content-Length": "1",
          "x-a": "canary\r\nx: y",
          "x-ok": "é",
        },
      },
      d: { ...LOCAL, headers: { "x-wide": "canary→" } },
      e: { ...LOCAL, headers: { "X-Title": "canary", "x-ok": "1", "x-title": "canary" } },
    },
  }));
  assert.deepEqual(paths.toSorted(), [
    "providers.a.apiKey",
    "providers.b.apiKey",
    "providers.c.headers.Content-Length",
    "providers.c.headers.Host",
    "providers.c.headers.x-a",
    'providers.c.headers["x y"]',
    "providers.d.headers.x-wide",
    "providers.e.headers.x-title",
  ]);
  assert.match(message, /the header X-Title in another spelling/);
  assert.ok(!message.includes("canary"));
});

Deno.test("what must not be logged is collected", async () => {
  const { secrets } = await loadText({
    database: {
      url: "postgres://u:db-canary@h/d",
      directUrl: "postgres://h/d?user=u&password=q-canary",
    },
    providers: {
      a: { ...LOCAL, apiKey: "literal-canary" },
      b: { ...LOCAL, apiKey: "pre-${PART}" },
      c: {
        ...LOCAL,
        headers: {
          "authorization": "Bearer literal-bearer-canary",
          "x-title": "not secret",
          "x-custom": "${CUSTOM}",
          "api-key": "header-canary",
        },
      },
    },
  }, { env: { PART: "part-canary", CUSTOM: "custom-canary" } });
  assert.deepEqual([...secrets].toSorted(), [
    "Bearer literal-bearer-canary",
    "custom-canary",
    "db-canary",
    "header-canary",
    "literal-bearer-canary",
    "literal-canary",
    "part-canary",
    "pre-part-canary",
    "q-canary",
  ]);
});

Deno.test("no default model can be guessed: the mistake says what to write", async () => {
  const vllm = { baseUrl: "http://127.0.0.1:8000/v1" };
  const { paths, message } = await refusal(loadText({ providers: { vllm } }));
  assert.deepEqual(paths, ["defaultModel"]);
  assert.match(message, /such as "vllm\/MODEL"/);
  const named = await loadText({
    providers: { vllm },
    agents: { default: { models: ["vllm/any"] } },
  });
  assert.equal(named.config.defaultModel, "vllm/any");
  const elsewhere = await refusal(loadText({
    providers: { openai: { baseUrl: "http://proxy/v1", apiKey: "canary-key" } },
  }));
  assert.deepEqual(elsewhere.paths, ["defaultModel"]);
});

Deno.test("secrets never come out of a refusal, wherever they were put", async () => {
  const secret = "sk-proj-Canary0123456789";
  const env = { KEY: "env-Canary-9876543210" };
  const { message, problems } = await refusal(loadText({
    server: { host: secret, port: "${KEY}" },
    log: { level: "${KEY}" },
    database: { url: `mysql://u:${secret}@h`, poolSize: secret },
    providers: {
      a: { apiKey: 5, key: secret, kind: secret, headers: secret, baseUrl: "${KEY}" },
      b: { baseUrl: `http://u:${secret}@h`, models: "${KEY}", apiKey: `${secret} ` },
      c: { baseUrl: "http://h?${KEY}", headers: { "x-a": { x: secret } } },
    },
    models: { m: { targets: ["${KEY}", secret] }, n: secret },
    defaultModel: "${KEY}",
    agents: {
      a: { models: ["${KEY}"], tools: secret, toolChoice: secret, systemPromptFile: "${KEY}" },
    },
  }, { env }));
  assert.ok(problems.length >= 15, String(problems.length));
  assert.ok(!/canary/i.test(message + JSON.stringify(problems)), message);
  assert.match(message, /\$\{KEY\}/);
});
