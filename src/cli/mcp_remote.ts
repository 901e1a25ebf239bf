import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError } from "./print.ts";

/** A running hub, and the admin key that it is asked with. */
export interface RunningHub {
  url: string;
  key: string;
}

/** What a running hub is asked. */
export type McpQuestion = "list" | "status" | "tools" | "test" | "logs";

/** Looks at the MCP servers of a running hub. Ends with 1 when one that is asked is not ready, or the hub does not answer. */
export async function askRunningHub(
  what: McpQuestion,
  { hub, name, isJson }: { hub: RunningHub; name: string | undefined; isJson: boolean },
): Promise<number> {
  const path = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  if (what === "logs") return await logs(await ask(hub, `${path}/logs`), isJson);
  const found = name === undefined ? (await ask(hub, ""))["data"] : [await ask(hub, path)];
  let servers = (Array.isArray(found) ? found : []).filter(isJsonObject);
  if (what === "test") {
    servers = await Promise.all(
      servers.map(async (server) =>
        server["state"] === "disabled"
          ? server
          : await ask(hub, `/${encodeURIComponent(text(server["name"]))}/connect`, "POST")
      ),
    );
  }
  if (isJson) print(JSON.stringify(servers, null, 2));
  else for (const server of servers) show(what, server);
  const isWell = servers.every(({ state }) =>
    state === "ready" || state === "disabled" || state === "idle"
  );
  return isWell || what === "list" ? EXIT.ok : EXIT.failed;
}

function logs(answer: JsonObject, isJson: boolean): number {
  const entries = (Array.isArray(answer["data"]) ? answer["data"] : []).filter(isJsonObject);
  if (isJson) { for (const entry of entries) print(JSON.stringify(entry)); }
  else {for (const { at, kind, text: said } of entries) {
      print(`${text(at)} ${text(kind)} ${text(said)}`);
    }}
  if (answer["traced"] !== true) {
    if (!isJson) print(text(answer["stderr"]).trimEnd());
    printError(
      "The server is not traced (trace in its configuration, or LOOPHUB_MCP_TRACE); this is the end of its stderr",
    );
  }
  return EXIT.ok;
}

function show(what: McpQuestion, server: JsonObject): void {
  const { name, state, reason, transport, prefix, tools, dropped } = server;
  const listed = (Array.isArray(tools) ? tools : []).filter(isJsonObject);
  if (what === "list") return print(`${text(name)}  ${text(transport)}  ${text(prefix)}__*`);
  if (what !== "tools") {
    const why = typeof reason === "string" ? ` (${reason})` : "";
    print(`${text(name)}: ${text(state)}${why}, ${listed.length} tools`);
  } else {
    for (const { name, description } of listed) {
      print(`${text(name)}  ${text(description).split("\n")[0]?.slice(0, 100) ?? ""}`);
    }
  }
  for (const left of (Array.isArray(dropped) ? dropped : []).filter(isJsonObject)) {
    print(`${text(name)}: ${text(left["name"])} is left out: ${text(left["reason"])}`);
  }
}

async function ask({ url, key }: RunningHub, path: string, method = "GET"): Promise<JsonObject> {
  const answer = await fetch(`${url.replace(/\/$/, "")}/v1/admin/mcp${path}`, {
    method,
    headers: { authorization: `Bearer ${key}` },
    redirect: "error",
  });
  const said = await answer.text();
  let value: Json = null;
  try {
    value = JSON.parse(said);
  } catch {
    // Told below.
  }
  if (answer.ok && isJsonObject(value)) return value;
  const error = isJsonObject(value) && isJsonObject(value["error"]) ? value["error"] : {};
  throw new Error(
    `The hub at ${url} answered ${answer.status}: ${text(error["message"]) || "no reason"}`,
  );
}

function text(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}
