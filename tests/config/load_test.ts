import assert from "node:assert/strict";
import { load, loadText, LOCAL, refusal } from "./load_fixture.ts";

Deno.test("without a file and without keys the demo provider stands in", async () => {
  const loaded = await load();
  assert.equal(loaded.source, null);
  assert.equal(loaded.folder, "/project");
  assert.deepEqual(Object.keys(loaded.config.providers), ["demo"]);
  assert.equal(loaded.config.providers.demo?.kind, "demo");
  assert.deepEqual(loaded.config.providers.demo?.models, ["talk", "tools"]);
  assert.equal(loaded.config.defaultModel, "demo/tools");
  assert.deepEqual(loaded.config.agents.default?.models, ["demo/tools"]);
  assert.deepEqual(loaded.config.agents.default?.tools, ["*"]);
  assert.equal(loaded.config.agents.default?.maxSteps, 10);
  assert.match(loaded.notes.join("\n"), /demo is used because no other was found/);
});

Deno.test("every section has its defaults", async () => {
  const { config } = await load();
  assert.deepEqual(config.server, {
    host: "127.0.0.1",
    port: 4141,
    queueTimeoutMs: 5000,
    maxBodyBytes: 32 * 1024 * 1024,
    maxUploadBytes: 512 * 1024 * 1024,
    metrics: "local",
    maxConcurrentRequests: 1000,
    keepaliveMs: 10_000,
    headersTimeoutMs: 10_000,
    requestTimeoutMs: 30_000,
    idleTimeoutMs: 75_000,
    shutdownDelayMs: 5000,
    shutdownGraceMs: 30_000,
  });
  assert.deepEqual(config.database, {
    poolSize: 4,
    readPoolSize: 4,
    statementTimeoutMs: 5000,
    prepare: true,
    notify: true,
    skipLocked: true,
  });
  assert.deepEqual(config.log, { level: "info", format: "auto" });
  assert.deepEqual(config.timeouts, {
    connectMs: 10_000,
    firstTokenMs: 60_000,
    inactivityMs: 30_000,
    totalMs: 600_000,
  });
  assert.deepEqual(config.runs, {
    approvalTimeoutMs: 600_000,
    questionTimeoutMs: 600_000,
    leaseMs: 15_000,
    leaveAfterMs: 1500,
    retentionHours: 168,
  });
});

Deno.test("the first file of --config, the working directory, XDG and home is read, and no other", async () => {
  const named = (port: number) => JSON.stringify({ server: { port } });
  const files: Record<string, string> = {
    "/elsewhere/hub.json": named(1),
    "/project/loophub.json": named(2),
    "/xdg/loophub/loophub.json": named(3),
    "/home/ann/.config/loophub/loophub.json": named(4),
  };
  const env = { XDG_CONFIG_HOME: "/xdg", HOME: "/home/ann" };
  const found = await load({ files, env, path: "../elsewhere/hub.json" });
  assert.equal(found.source, "/elsewhere/hub.json");
  assert.equal(found.folder, "/elsewhere");
  const ports = [found.config.server.port];
  for (
    const path of ["/elsewhere/hub.json", "/project/loophub.json", "/xdg/loophub/loophub.json"]
  ) {
    delete files[path];
    ports.push((await load({ files, env })).config.server.port);
  }
  assert.deepEqual(ports, [1, 2, 3, 4]);
  delete files["/home/ann/.config/loophub/loophub.json"];
  assert.equal((await load({ files, env })).source, null);
});

Deno.test("a relative XDG_CONFIG_HOME is ignored, as its specification demands", async () => {
  const files = { "xdg/loophub/loophub.json": "{}", "/project/xdg/loophub/loophub.json": "{}" };
  assert.equal((await load({ files, env: { XDG_CONFIG_HOME: "xdg" } })).source, null);
});

Deno.test("a file that was asked for must be there", async () => {
  const { message, paths } = await refusal(load({ path: "missing.json" }));
  assert.deepEqual(paths, ["--config"]);
  assert.match(message, /\/project\/missing\.json.*\n.*got no file at this path/);
});

Deno.test("a file that is there and cannot be read is not passed over", async () => {
  const { message } = await refusal(load({
    files: { "/project/loophub.json": new Deno.errors.PermissionDenied("secret-path-text") },
  }));
  assert.match(message, /cannot be read \(PermissionDenied\)/);
  assert.ok(!message.includes("secret-path-text"));
});

Deno.test("variables win over the file, and a broken one is named", async () => {
  const file = {
    server: { host: "0.0.0.0", port: 1 },
    log: { level: "warn" },
    providers: { a: LOCAL },
  };
  const { config, secrets } = await loadText(file, {
    env: {
      LOOPHUB_HOST: "::1",
      LOOPHUB_PORT: "8080",
      LOOPHUB_LOG_LEVEL: "debug",
      LOOPHUB_LOG_FORMAT: "",
      LOOPHUB_DATA_DIR: "data",
      DATABASE_URL: "postgres://hub:p%40ssw0rd-canary@db/hub",
      LOOPHUB_MASTER_KEY: "master-canary",
    },
    files: {},
  });
  assert.equal(config.server.host, "::1");
  assert.equal(config.server.port, 8080);
  assert.equal(config.log.level, "debug");
  assert.equal(config.log.format, "auto");
  assert.equal(config.database.dataDir, "/project/data");
  assert.ok(secrets.includes("p@ssw0rd-canary") && secrets.includes("p%40ssw0rd-canary"));
  assert.ok(secrets.includes("master-canary"));

  const { message } = await refusal(loadText(file, { env: { LOOPHUB_PORT: "many" } }));
  assert.match(message, /server\.port \(from LOOPHUB_PORT\): got "many", wanted a whole number/);
});

Deno.test("a setting that a variable overrides is not read from the file", async () => {
  const file = { server: { port: "${NOT_SET}" } };
  const { config } = await loadText(file, { env: { LOOPHUB_PORT: "99" } });
  assert.equal(config.server.port, 99);
});

Deno.test("a variable is taken as it is, with nothing expanded in it", async () => {
  const url = "postgres://hub:${HOME}@db/hub";
  const { config } = await load({ env: { DATABASE_URL: url, HOME: "/root" } });
  assert.equal(config.database.url, url);
});

Deno.test("a data folder of the file is relative to the file", async () => {
  const { config } = await load({
    cwd: "/project",
    path: "/etc/hub/loophub.json",
    files: { "/etc/hub/loophub.json": `{"database": {"dataDir": "data"}}` },
  });
  assert.equal(config.database.dataDir, "/etc/hub/data");
});

Deno.test("all mistakes are told at once, each with place, what came and what was wanted", async () => {
  const { message, problems, paths } = await refusal(loadText(`{
    "servr": {},
    "server": { "port": 70000, "host": "http://x", "trustedHosts": ["a b"] },
    "log": { "level": "loud" },
    "database": { "url": "mysql://x", "prepare": "yes" },
    "providers": {
      "openai": { "api_key": "x", "maxRetries": 9 },
      "Big One": {}, "Big Two": {},
      "mine": {},
      "groq": { "apiKey": "\${NOT_SET}" },
      "local": { "baseUrl": "http://127.0.0.1:8000/v1", "models": ["m1"] }
    },
    "models": { "a": "b", "b": "a", "c": { "targets": ["local/m9", "nowhere/x", "plain"] }, "d": {} },
    "agents": { "one": { "models": ["zzz"], "systemPrompt": "x", "systemPromptFile": "y", "maxSteps": 0 } },
    "operations": { "modules": ["ops.ts"] },
    "timeouts": { "connectMs": 1.5 }
  }`));
  assert.deepEqual(
    paths.toSorted(),
    [
      "agents.one.maxSteps",
      "agents.one.models[0]",
      "agents.one.systemPromptFile",
      "database.prepare",
      "database.url",
      "log.level",
      "models.a",
      "models.c.targets[0]",
      "models.c.targets[1]",
      "models.c.targets[2]",
      "models.d.targets",
      "operations.modules[0]",
      'providers["Big One"]',
      'providers["Big Two"]',
      "providers.groq.apiKey",
      "providers.mine.baseUrl",
      "providers.openai.api_key",
      "providers.openai.maxRetries",
      "server.host",
      "server.port",
      "server.trustedHosts[0]",
      "servr",
      "timeouts.connectMs",
    ].toSorted(),
  );
  for (const problem of problems) {
    assert.ok(problem.got.length > 0 && problem.wanted.length > 0);
    assert.ok(problem.line !== undefined && problem.line > 1, problem.path);
    assert.ok(
      message.includes(`${problem.path} (line ${problem.line}): got ${problem.got}, wanted`),
    );
  }
  assert.match(message, /^\/project\/loophub\.json has 23 mistakes:\n/);
  assert.match(message, /servr .* did you mean "server"/);
  assert.match(message, /api_key .* did you mean "apiKey"/);
  assert.equal(message.split("\n").length, 24);
  const lines = problems.map(({ line }) => line ?? 0);
  assert.deepEqual(lines, lines.toSorted((a, b) => a - b));
});

Deno.test("a mistake hides no other mistake and makes none of its own", async () => {
  // The broken provider, model and agent are known by name, so that what refers to them is not blamed.
  const { paths } = await refusal(loadText({
    providers: { local: 5 },
    models: { fast: 5, quick: "fast" },
    defaultModel: "fast",
    agents: { default: { models: ["fast"] } },
  }));
  assert.deepEqual(paths.toSorted(), ["models.fast", "providers.local"]);
});

Deno.test("violations of the syntax are told with line and column", async () => {
  const { problems } = await refusal(loadText(`{\n  "a": 1\n  "b": sk-canary,\n}`));
  assert.equal(problems[0]?.path, "line 3, column 3");
  assert.equal(problems[0]?.wanted, "a comma");
  assert.ok(!JSON.stringify(problems).includes("canary"));
});

Deno.test("a file that is no object is refused", async () => {
  for (const text of ["[]", "5", '"sk-canary-canary"', "null", "", "// nothing"]) {
    const { message } = await refusal(loadText(text));
    assert.ok(!message.includes("canary"));
  }
});

Deno.test("the loaded configuration cannot be changed anywhere", async () => {
  const loaded = await loadText({ providers: { a: LOCAL }, models: { x: { targets: ["a/m1"] } } });
  const walk = (value: unknown, path: string): void => {
    if (typeof value !== "object" || value === null) return;
    assert.ok(Object.isFrozen(value), path);
    for (const [key, member] of Object.entries(value)) walk(member, `${path}.${key}`);
  };
  walk(loaded, "loaded");
});

Deno.test("names that clients send find nothing that was not configured", async () => {
  const { config } = await loadText({ providers: { a: LOCAL } });
  for (const name of ["constructor", "toString", "__proto__", "hasOwnProperty"]) {
    assert.equal(config.models[name], undefined);
    assert.equal(config.agents[name], undefined);
    assert.equal(config.providers[name], undefined);
  }
});

Deno.test("__proto__ is refused as a name", async () => {
  const { paths } = await refusal(loadText(`{"agents": {"__proto__": {"maxSteps": 3}}}`));
  assert.deepEqual(paths, ["agents.__proto__"]);
  assert.equal(({} as Record<string, unknown>).maxSteps, undefined);
});

Deno.test("names of agents as models are nobody else's", async () => {
  const provider = { baseUrl: "http://127.0.0.1:1/v1" };
  const { paths } = await refusal(loadText({
    providers: { agent: provider, agents: provider },
    models: { "agent/x": { targets: ["agents/m"] }, agent: { targets: ["agents/m"] } },
  }));
  assert.deepEqual(paths, ["providers.agent", 'models["agent/x"]']);
});

Deno.test("operation modules become absolute paths", async () => {
  const { config } = await loadText({ operations: { modules: ["ops/a.ts", "/b.ts"] } }, {
    files: { "/project/ops/a.ts": "", "/b.ts": "" },
  });
  assert.deepEqual(config.operations.modules, ["/project/ops/a.ts", "/b.ts"]);
});
