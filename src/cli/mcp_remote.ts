import type { JsonObject } from "../core/json.ts";
import { type AskedHub, type AskedList, askHub, askList, objectsOf, textOf } from "./ask_hub.ts";
import { EXIT } from "./exit_codes.ts";
import { print, printError, printText } from "./print.ts";

const ROUTE = "/v1/admin/mcp";

/** What a running hub is asked. */
export type McpQuestion = "list" | "status" | "tools" | "test" | "refresh" | "logs";

/** Looks at the MCP servers of a running hub. Ends with 1 when one that is asked is not ready, or the hub does not answer. */
export async function askRunningHub(
  what: McpQuestion,
  { hub, name, isJson }: { hub: AskedHub; name: string | undefined; isJson: boolean },
): Promise<number> {
  const path = name === undefined ? "" : `/${encodeURIComponent(name)}`;
  if (what === "logs") return logs(await askList(hub, `${ROUTE}${path}/logs`), isJson);
  const refreshed = what === "refresh" ? [await ask(hub, `${path}/refresh`, "POST")] : null;
  let servers = refreshed ??
    (name === undefined ? (await askList(hub, ROUTE)).items : [await ask(hub, path)]);
  if (what === "test") {
    servers = await Promise.all(
      servers.map(async (server) =>
        server["state"] === "disabled"
          ? server
          : await ask(hub, `/${encodeURIComponent(textOf(server["name"]))}/connect`, "POST")
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

function logs({ items: entries, answer }: AskedList, isJson: boolean): number {
  if (isJson) { for (const entry of entries) print(JSON.stringify(entry)); }
  else {for (const { at, kind, text: said } of entries) {
      printText(`${textOf(at)} ${textOf(kind)} ${textOf(said)}`);
    }}
  if (answer["traced"] !== true) {
    if (!isJson) printText(textOf(answer["stderr"]).trimEnd());
    printError(
      "The server is not traced (trace in its configuration, or LOOPHUB_MCP_TRACE); this is the end of its stderr",
    );
  }
  return EXIT.ok;
}

function show(what: McpQuestion, server: JsonObject): void {
  const { name, state, reason, transport, prefix, tools, dropped } = server;
  const listed = objectsOf(tools);
  if (what === "list") {
    return printText(`${textOf(name)}  ${textOf(transport)}  ${textOf(prefix)}__*`);
  }
  if (what !== "tools") {
    const why = typeof reason === "string" ? ` (${reason})` : "";
    printText(`${textOf(name)}: ${textOf(state)}${why}, ${listed.length} tools`);
  } else {
    for (const { name, description } of listed) {
      printText(`${textOf(name)}  ${textOf(description).split("\n")[0]?.slice(0, 100) ?? ""}`);
    }
  }
  for (const left of objectsOf(dropped)) {
    printText(`${textOf(name)}: ${textOf(left["name"])} is left out: ${textOf(left["reason"])}`);
  }
}

const ask = (hub: AskedHub, path: string, method = "GET") =>
  askHub(hub, `${ROUTE}${path}`, { method });
