import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";

/** A hub that is asked over its API: a running one, or one in this process. */
export interface AskedHub {
  /** How people know it. */
  name: string;
  /** Sends a request for a path, with the key. Rejects when the hub cannot be reached. */
  send(path: string, init?: RequestInit): Promise<Response>;
}

/** A hub has answered, and not with what was asked for. */
export class HubRefusal extends Error {
  override name = "HubRefusal";

  /** `retryAfterMs`: when to ask again, where the hub has said so. */
  constructor(
    message: string,
    readonly status: number,
    readonly retryAfterMs: number | null = null,
  ) {
    super(message);
  }
}

/** A running hub and a key for it. */
export function remoteHub({ url, key }: { url: string; key: string }): AskedHub {
  const base = url.replace(/\/+$/, "");
  return {
    name: `the hub at ${base}`,
    send(path, init = {}) {
      const headers = new Headers(init.headers);
      headers.set("authorization", `Bearer ${key}`);
      return fetch(`${base}${path}`, { ...init, headers, redirect: "error" });
    },
  };
}

/** A request with a JSON body. */
export function postJson(body: JsonObject, init: RequestInit = {}): RequestInit {
  const headers = { "content-type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body), ...init };
}

/** The JSON object that a hub answers with. Throws `HubRefusal`. */
export async function askHub(
  hub: AskedHub,
  path: string,
  init?: RequestInit,
): Promise<JsonObject> {
  const answer = await hub.send(path, init);
  const value = await readJson(answer);
  if (answer.ok && isJsonObject(value)) return value;
  throw refusalOf(hub, answer, value);
}

/** Throws `HubRefusal` for an answer that is none of success, and reads it to its end for that. */
export async function assertAnswered(hub: AskedHub, answer: Response): Promise<void> {
  if (!answer.ok) throw refusalOf(hub, answer, await readJson(answer));
}

async function readJson(answer: Response): Promise<Json> {
  const said = await answer.text();
  try {
    return JSON.parse(said);
  } catch {
    return null;
  }
}

function refusalOf({ name }: AskedHub, { status, headers }: Response, value: Json): HubRefusal {
  const error = isJsonObject(value) && isJsonObject(value["error"]) ? value["error"] : {};
  const why = textOf(error["message"]) || "no reason";
  const retryAfter = headers.get("retry-after") ?? "";
  const message = `${name} answered ${status}: ${why}`;
  return new HubRefusal(
    capitalized(message),
    status,
    /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) * 1000 : null,
  );
}

function capitalized(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`;
}

/** A member of an answer where it is text, else "". */
export function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

/** What the items of lists were called before `data`, by route. Hubs of the former version say nothing else. */
const FORMER_NAMES: readonly (readonly [RegExp, string])[] = [
  [/^\/v1\/sessions$/, "sessions"],
  [/^\/v1\/sessions\/[^/]+\/messages$/, "messages"],
  [/^\/v1\/agents$/, "agents"],
  [/^\/v1\/skills$/, "skills"],
];

/** A list that a hub answers with. */
export interface AskedList {
  items: JsonObject[];
  /** Where the next page begins; empty on the last one. */
  nextCursor: string;
  /** The whole answer, for what stands beside the list. */
  answer: JsonObject;
}

/** Asks for a list, of a hub of the former version too. Throws `HubRefusal` when it answers with none. */
export async function askList(hub: AskedHub, path: string): Promise<AskedList> {
  const answer = await askHub(hub, path);
  const [route = ""] = path.split("?");
  const formerName = FORMER_NAMES.find(([pattern]) => pattern.test(route))?.[1] ?? "data";
  const items = answer["data"] ?? answer[formerName];
  if (Array.isArray(items)) {
    return { items: items.filter(isJsonObject), nextCursor: textOf(answer["nextCursor"]), answer };
  }
  throw new HubRefusal(
    `${capitalized(hub.name)} answered ${route} without a list (\`data\`): ` +
      "it is no hub of this version or the one before",
    200,
  );
}

/** The objects of a list inside of an answer. */
export function objectsOf(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}
