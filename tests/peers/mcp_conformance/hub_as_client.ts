// A hub that is a client of one server of the suite, for one scenario; the process ends as it went there.
import type { JsonObject } from "../../../src/core/json.ts";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { startTestHub, type TestHub } from "../../support/test_hub.ts";

/** What a client is to do with a server of the suite. */
interface Scenario {
  url: string;
  scenario: string;
  context: { client_id?: string; client_secret?: string; toolCalls?: ToolCall[] };
}

interface ToolCall {
  name: string;
  arguments: JsonObject;
}

/** As many as the suite lets a client authorize before it must give up. */
const MAX_AUTHORIZATIONS = 3;


/** What the process is started with. */
interface Task {
  databaseUrl: string;
  dataDir: string;
  key: string;
  name: string;
  scenario: Scenario;
}

/** The suite's authorization servers listen on ports of their own. */
const privateOrigins = ["http://localhost:*", "http://127.0.0.1:*"];
const [task = "{}"] = Deno.args;
const { name, scenario, ...place }: Task = JSON.parse(task);
try {
  const hub = await startTestHub({ mcpServers: { [name]: serverOf(scenario) } }, place);
  await use(hub, name, scenario);
  await hub.close();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  Deno.exit(1);
}
Deno.exit(0);

function serverOf({ url, scenario, context }: Scenario): JsonObject {
  if (scenario === "auth/pre-registration") {
    const { client_id: clientId = "", client_secret: clientSecret = "" } = context;
    return { url, oauth: { clientId, clientSecret, privateOrigins } };
  }
  if (scenario !== "auth/basic-cimd") return { url, oauth: { privateOrigins } };
  // The suite knows a document at this address only: it is what the operator has registered.
  const clientId = "https://conformance-test.local/client-metadata.json";
  return { url, oauth: { clientId, privateOrigins } };
}

/** Connects the hub, and calls what the server offers over the hub's own `/mcp`; whatever wants it is authorized. */
async function use(hub: TestHub, name: string, asked: Scenario): Promise<void> {
  let authorizations = 0;
  const authorize = async (why: string) => {
    if (authorizations++ === MAX_AUTHORIZATIONS) throw new Error(`Still not let in: ${why}`);
    await authorizeHub(hub, name);
  };
  await connect(hub, name, authorize);
  const client = await connectPerson(hub, asked.scenario);
  try {
    for (const { name: tool, arguments: input } of await callsFor(asked, name, client)) {
      for (;;) {
        const params = { name: `${name}__${tool}`, arguments: input };
        const result = await client.callTool(params);
        const text = (result.content as { text?: string }[])[0]?.text ?? "";
        if (result.isError !== true || !text.includes("needs an authorization")) break;
        await authorize(text);
      }
    }
  } finally {
    await client.close();
  }
}

async function connect(
  hub: TestHub,
  name: string,
  authorize: (why: string) => Promise<void>,
): Promise<void> {
  for (;;) {
    const answer = await hub.call(`/v1/admin/mcp/${name}/connect`, { method: "POST" });
    const { state, reason } = await answer.json();
    if (state === "ready") return;
    if (state !== "needs_auth") throw new Error(`The hub could not connect: ${reason}`);
    await authorize(reason);
  }
}

/** A client of the hub, with a person who agrees to whatever is asked. */
async function connectPerson({ url, key }: TestHub, scenario: string): Promise<Client> {
  const client = new Client({ name: "person", version: "1" }, { capabilities: { elicitation: {} } });
  const content = scenario === "sep-2322-client-request-state" ? { confirmed: true } : {};
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept" as const, content }));
  const requestInit = { headers: { authorization: `Bearer ${key}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit });
  await client.connect(transport as Parameters<typeof client.connect>[0]);
  return client;
}

/** What a person and a browser do. */
async function authorizeHub(hub: TestHub, name: string): Promise<void> {
  const begun = await hub.call(`/v1/admin/mcp/${name}/authorize`, { method: "POST" });
  const { url, error } = await begun.json();
  if (!begun.ok) throw new Error(error.message);
  const agreed = await fetch(url, { redirect: "manual" });
  await agreed.body?.cancel();
  const back = await fetch(agreed.headers.get("location") ?? "");
  const text = await back.text();
  if (!back.ok) throw new Error(text);
}

/** The calls that a scenario names, else those that it is known to wait for. */
async function callsFor(
  { context, scenario }: Scenario,
  server: string,
  client: Client,
): Promise<ToolCall[]> {
  if (context.toolCalls !== undefined) return context.toolCalls;
  const prefix = `${server}__`;
  const listed = (await client.listTools()).tools.filter(({ name }) => name.startsWith(prefix));
  const echoed = listed.find(({ name }) => name === `${prefix}json_schema_2020_12_tool`);
  const inputs: Record<string, JsonObject> = {
    add_numbers: { a: 5, b: 3 },
    json_schema_echo: { schema: (echoed?.inputSchema ?? {}) as JsonObject },
  };
  const region = scenario === "http-invalid-tool-headers" ? { region: "us-west1" } : {};
  return listed.map(({ name }) => name.slice(prefix.length))
    .map((name) => ({ name, arguments: inputs[name] ?? region }));
}
