import { firstKeyIn, withPassword } from "../tests/support/hub_process.ts";
import { pinned } from "./pin.ts";

/** Something that answers chat completions. */
export interface Target {
  name: string;
  port: number;
  /** Whose CPU is counted; null for the mock itself. */
  pid: number | null;
  headers: string[];
  /** The body as this target wants it. */
  mapBody?(body: string): string;
  stop(): Promise<void>;
}

const here = new URL("./", import.meta.url).pathname;
const root = new URL("../", import.meta.url).pathname;

/** Builds the mock upstream and the load client, and starts the mock. */
export async function startMock(): Promise<{ port: number; stop(): Promise<void> }> {
  await Deno.mkdir(`${here}build`, { recursive: true });
  for (const [name, flags] of [["mock", ["-pthread"]], ["load", ["-lm"]]] as const) {
    const made = await new Deno.Command("gcc", {
      args: ["-O2", "-o", `${here}build/${name}`, `${here}src/${name}.c`, ...flags],
    }).output();
    if (!made.success) throw new Error(`gcc: ${new TextDecoder().decode(made.stderr)}`);
  }
  const port = freePort();
  const child = new Deno.Command(
    ...pinned(0, `${here}build/mock`, ["-p", String(port)], { stdout: "null", stderr: "null" }),
  ).spawn();
  await answers(port);
  return { port, stop: () => end(child) };
}

/** nginx in front of the mock; null where there is none. */
export async function startNginx(folder: string, upstream: number): Promise<Target | null> {
  const found = await new Deno.Command("sh", { args: ["-c", "command -v nginx"] }).output();
  if (!found.success) return null;
  const port = freePort();
  await Deno.writeTextFile(
    `${folder}/nginx.conf`,
    `worker_processes 1; daemon off; master_process off; error_log stderr error; pid ${folder}/nginx.pid;
events { worker_connections 16384; }
http {
  access_log off; client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  keepalive_requests 1000000000; keepalive_timeout 300s; tcp_nodelay on;
  upstream mock { server 127.0.0.1:${upstream}; keepalive 1024; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 300s;
    }
  }
}
`,
  );
  const nginx = new TextDecoder().decode(found.stdout).trim();
  const child = new Deno.Command(
    ...pinned(1, nginx, ["-p", folder, "-c", `${folder}/nginx.conf`], {
      stdout: "null",
      stderr: "null",
    }),
  ).spawn();
  await answers(port);
  return { name: "nginx", port, pid: child.pid, headers: [], stop: () => end(child) };
}

/** The hub, and how long it took to be ready. */
export interface StartedHub extends Target {
  readyMs: number;
  /** URL of its Postgres. */
  psql: string;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  /** Tells it to end, and waits for that. */
  terminate(): Promise<void>;
}

/** Settings of a hub that are not the bench's usual ones. */
export interface HubSettings {
  server?: Record<string, number>;
  provider?: Record<string, number>;
  database?: Record<string, boolean>;
  /** Postgres of another hub; its own one when left out. */
  databaseUrl?: string;
  /** Models of the mock that are public too, by the same name: over two providers, with rules, weights and prices. */
  routed?: readonly string[];
}

/** Replicas share it. */
const MASTER_KEY = crypto.getRandomValues(new Uint8Array(32)).toHex();

/** The key of the hub's first start: later ones do not show it again. */
let firstKey = "";

/** The hub as its start task runs it, with authentication, usage rows and embedded Postgres. */
export async function startHub(
  folder: string,
  upstream: number,
  settings: HubSettings = {},
): Promise<StartedHub> {
  const { routed = [] } = settings;
  const mock = {
    baseUrl: `http://127.0.0.1:${upstream}/v1`,
    apiKey: "sk-mock",
    maxConcurrent: 10_000,
    ...settings.provider,
  };
  const config = {
    server: { port: 0, maxConcurrentRequests: 0, ...settings.server },
    limits: { maxConcurrentPerKey: 0 },
    database: { dataDir: `${folder}/data`, ...settings.database },
    log: { level: "warn" },
    ...(routed.length === 0 ? { providers: { mock } } : routesOf(routed, mock)),
    defaultModel: "mock/mock",
    operations: { modules: [`${here}weather.ts`] },
    agents: {
      weather: { models: ["mock/mock-n64-d0-k1-t1"], tools: ["get.weather"] },
      slow: { models: ["mock/mock-n40-d20-k1-t1"], tools: ["get.weather"] },
      long: { models: ["mock/mock-n3000-d10-k1"], tools: [] },
      silent: { models: ["mock/mock-n5-d60000-k1"], tools: [] },
      wide: { models: ["mock/mock-n20000-d1-k1"], tools: [] },
    },
  };
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  const tasks = JSON.parse(await Deno.readTextFile(`${root}deno.json`)).tasks;
  const flags = String(tasks.start.command).split(" ").filter((word) => word.startsWith("--"));
  const startedMs = performance.now();
  const child = new Deno.Command(
    ...pinned(1, Deno.execPath(), ["run", ...flags, `${root}src/main.ts`, "start"], {
      cwd: folder,
      env: {
        LOOPHUB_MASTER_KEY: MASTER_KEY,
        ...settings.databaseUrl === undefined ? {} : { DATABASE_URL: settings.databaseUrl },
      },
      stdout: "piped",
      stderr: "inherit",
    }),
  ).spawn();
  let output = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) output += text;
  })();
  let isOver = false;
  void reading.then(() => isOver = true);
  while (!/listens on/.test(output) || (firstKey === "" && !output.includes("# an agent run"))) {
    if (isOver) throw new Error("The hub ended before it was ready");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const readyMs = performance.now() - startedMs;
  const port = Number(/listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(output)?.[1]);
  const ended = async (signal: Deno.Signal) => {
    await end(child, signal);
    await reading;
  };
  firstKey = firstKeyIn(output) ?? firstKey;
  return {
    name: "hub",
    readyMs,
    port,
    pid: child.pid,
    psql: settings.databaseUrl ??
      withPassword(/psql\s+(postgres:\S+)/.exec(output)?.[1] ?? "", `${folder}/data/password`),
    headers: [`authorization: Bearer ${firstKey}`],
    mapBody: (body) => body.replace('"model":"', '"model":"mock/'),
    stop: () => ended("SIGINT"),
    kill: () => ended("SIGKILL"),
    terminate: () => ended("SIGTERM"),
  };
}

/** Public models as operators write them, and the two priced providers behind them. */
function routesOf(routed: readonly string[], mock: Record<string, unknown>) {
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const priced = {
    ...mock,
    models: Object.fromEntries(routed.map((name) => [name, { pricing }])),
  };
  const models = routed.map((name) => [name, {
    targets: [`left/${name}`, `right/${name}`],
    strategy: "weights",
    weights: { [`left/${name}`]: 3, [`right/${name}`]: 1 },
    rules: [
      { when: { tag: "batch" }, targets: [`right/${name}`] },
      { when: { minBytes: 1_000_000 }, targets: [`right/${name}`] },
    ],
  }]);
  return {
    providers: { mock, left: priced, right: priced },
    models: Object.fromEntries(models),
  };
}

/**
 * The same hub with its routed models: for a key without limits, and for one whose every call is counted in rates and
 * reserves in a hard budget.
 */
export async function targetsOfRoutes(hub: StartedHub): Promise<Target[]> {
  const { mapBody: _, ...plain } = hub;
  const limited = await keyOf(hub, "limited", {
    models: ["mock*"],
    requestsPerMinute: 1e9,
    tokensPerMinute: 1e12,
    maxConcurrent: 10_000,
    budgets: { daily: { hardMicros: 1e15 }, total: { hardMicros: 1e15, softMicros: 1e15 } },
  });
  return [
    { ...plain, name: "hub, routed" },
    { ...plain, name: "hub, limits", headers: [limited] },
  ];
}

/** The header of a new key with this policy. */
export async function keyOf(hub: StartedHub, name: string, policy: unknown): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${hub.port}/v1/admin/keys`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...Object.fromEntries(hub.headers.map((line) => line.split(": ", 2))),
    },
    body: JSON.stringify({ name, tags: ["bench"], policy }),
  });
  if (!answer.ok) throw new Error(`No key for the bench: ${await answer.text()}`);
  const { token } = await answer.json();
  return `authorization: Bearer ${token}`;
}

async function end(child: Deno.ChildProcess, signal: Deno.Signal = "SIGTERM"): Promise<void> {
  try {
    child.kill(signal);
  } catch {
    // It has ended already.
  }
  await child.status;
}

function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  return listener.addr.port;
}

async function answers(port: number): Promise<void> {
  for (let look = 0; look < 250; look++) {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  throw new Error(`Nothing answers on port ${port}`);
}
