import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { MAX_TIMER_MS } from "../duration_schema.ts";
import { OAuth } from "../mcp_schema.ts";

/** How a member of another client's file is read. */
export type AdoptedMember =
  /** `why` tells what of it was left out all the same. */
  | { kind: "mapped"; members: JsonObject; why?: string }
  /** Left out; `why` goes on with the member's name. */
  | { kind: "note"; why: string }
  /** Says nothing that anything depends on. */
  | { kind: "ignored" }
  | { kind: "unknown" };

type Adopt = (value: Json, server: JsonObject) => AdoptedMember;

const IGNORED: AdoptedMember = { kind: "ignored" };
const mapped = (members: JsonObject): AdoptedMember & { kind: "mapped" } => ({
  kind: "mapped",
  members,
});
const note = (why: string): Adopt => () => ({ kind: "note", why });
const ignored: Adopt = () => IGNORED;
const renamed = (name: string): Adopt => (value, server) =>
  name in server ? IGNORED : mapped({ [name]: value });

/** Who may call what is decided by the hub's own approvals, so that a file of a client never widens it. */
const approves = note(
  "lets tools run unasked in other clients; here keys, agents and approvals decide (docs/agents.md)",
);
const notRead = note("means something in the client that it is of, and was not read");

/** Most that clients which count in seconds allow: an hour. Anything above is milliseconds. */
const MAX_SECONDS = 3600;

/** Milliseconds of a time that is seconds in some clients (Cline, Roo Code) and milliseconds in others (Gemini CLI, opencode). */
function toMilliseconds(value: number): number {
  const ms = value <= MAX_SECONDS ? value * 1000 : value;
  return Math.min(Math.max(1, Math.round(ms)), MAX_TIMER_MS);
}

const timeout = (name: string): Adopt => (value, server) => {
  if (typeof value !== "number" || !(value > 0)) return { kind: "note", why: "is no time above 0" };
  return name in server ? IGNORED : mapped({ [name]: toMilliseconds(value) });
};

/** Adds patterns to `tools.allow` or `tools.deny`. */
const tools = (list: "allow" | "deny"): Adopt => (value, server) => {
  if (!Array.isArray(value) || !value.every((name) => typeof name === "string" && name !== "")) {
    return { kind: "note", why: "is no list of names of tools, and was not read" };
  }
  const own = isJsonObject(server["tools"]) ? server["tools"] : {};
  if (list === "allow" && list in own) return IGNORED;
  // An empty list of Copilot and others offers nothing; an empty list of exceptions says nothing.
  if (value.length === 0 && list === "deny") return IGNORED;
  const before = Array.isArray(own[list]) ? own[list] : [];
  return mapped({ tools: { ...own, [list]: [...new Set([...before, ...value])] } });
};

/** Headers beside those that the entry has. */
const headers = (toValue: (value: string) => string): Adopt => (value, server) => {
  if (!isJsonObject(value)) return { kind: "note", why: "is no object of texts, and was not read" };
  const added = Object.entries(value).filter((entry): entry is [string, string] =>
    typeof entry[1] === "string"
  ).map(([name, text]) => [name, toValue(text)]);
  const own = isJsonObject(server["headers"]) ? server["headers"] : {};
  return mapped({ headers: { ...Object.fromEntries(added), ...own } });
};

/** The hub's own members of an OAuth client, by their names in lower case. */
const OAUTH_NAMES: ReadonlyMap<string, string> = new Map(
  Object.keys(OAuth.properties).map((name) => [name.toLowerCase(), name]),
);

/** The hub's own members of an OAuth client, whatever their spelling, and the names of the others. */
function oauthOf(value: JsonObject): { oauth: JsonObject; others: string[] } {
  const oauth: JsonObject = {};
  const others: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    const own = OAUTH_NAMES.get(name.toLowerCase().replaceAll(/[_-]/g, ""));
    if (own === undefined) others.push(name);
    else oauth[own] = own === "scopes" && typeof member === "string" ? member.split(/\s+/) : member;
  }
  return { oauth, others };
}

const oauth: Adopt = (value) => {
  if (!isJsonObject(value)) return { kind: "unknown" };
  return value["enabled"] === false ? mapped({ oauth: false }) : asClient(value);
};

function asClient(value: JsonObject): AdoptedMember {
  const { oauth, others } = oauthOf(value);
  const left = others.filter((name) => name !== "enabled");
  const why = left.length === 0 ? {} : { why: `has ${left.join(", ")}, which was not read` };
  return { ...mapped({ oauth }), ...why };
}

/** Spellings of a transport that the hub has no own word for. */
const TYPES: Readonly<Record<string, string>> = {
  http: "http",
  httpstream: "http",
  sse: "sse",
  stdio: "stdio",
  streamable: "http",
  streamablehttp: "http",
  websocket: "ws",
  websockets: "ws",
  ws: "ws",
  wss: "ws",
};
const transport: Adopt = (value, server) => {
  const known = typeof value === "string"
    ? TYPES[value.toLowerCase().replaceAll(/[^a-z]/g, "")]
    : undefined;
  // A word that nothing is known of is the checker's to refuse.
  return "type" in server ? IGNORED : mapped({ type: known ?? value });
};

/** By name in other clients' files. */
const MEMBERS: ReadonlyMap<string, Adopt> = new Map<string, Adopt>([
  ["disabled", (value, server) => {
    if (typeof value !== "boolean") return { kind: "note", why: "is neither true nor false" };
    // Off is off, whichever of the two says so.
    return mapped({ enabled: !value && server["enabled"] !== false });
  }],
  ["type", transport],
  ["transportType", transport],
  ["serverUrl", renamed("url")],
  [
    "httpUrl",
    (value, server) =>
      "url" in server ? IGNORED : mapped({ url: value, type: server["type"] ?? "http" }),
  ],
  ["http_headers", headers((text) => text)],
  ["env_http_headers", headers((name) => `\${${name}}`)],
  [
    "bearer_token_env_var",
    (value, server) => headers((name) => `Bearer \${${name}}`)({ Authorization: value }, server),
  ],
  ["timeout", timeout("timeoutMs")],
  ["tool_timeout_sec", timeout("timeoutMs")],
  ["startup_timeout_sec", timeout("connectTimeoutMs")],
  ["startupTimeout", timeout("connectTimeoutMs")],
  ["tools", tools("allow")],
  ["includeTools", tools("allow")],
  ["enabledTools", tools("allow")],
  ["enabled_tools", tools("allow")],
  ["allowedTools", tools("allow")],
  ["excludeTools", tools("deny")],
  ["disabledTools", tools("deny")],
  ["disabled_tools", tools("deny")],
  ["command", (value, server) => {
    // Zed's older form.
    if (!isJsonObject(value)) return { kind: "unknown" };
    const { path, args, env } = value;
    return mapped({
      ...(path === undefined ? {} : { command: path }),
      ...(args === undefined || "args" in server ? {} : { args }),
      ...(env === undefined || "env" in server ? {} : { env }),
    });
  }],
  ["auth", (value) => {
    return isJsonObject(value)
      ? asClient(value)
      : { kind: "note", why: "is no object, and was not read" };
  }],
  ["oauth", oauth],
  ...["autoApprove", "autoapprove", "alwaysAllow", "autoAllow"].map((name) =>
    [name, approves] as const
  ),
  ["envFile", note("is not read: write its variables into `env`, or `${NAME}` for the hub's own")],
  ["headersHelper", note("is not run: write the headers, with `${NAME}` for what is secret")],
  ["sandbox", notRead],
  ["sandboxEnabled", notRead],
  ...[
    "authProviderType",
    "targetAudience",
    "targetServiceAccount",
    "settings",
    "watchPaths",
    "dev",
    "debug",
    "tcp",
    "alwaysLoad",
    "chatSettings",
    "serverInstructions",
    "initTimeout",
    "iconPath",
    "requiresOAuth",
  ].map((name) => [name, notRead] as const),
  ...[
    "$schema",
    "//",
    "_comment",
    "comment",
    "description",
    "disabledReason",
    "displayName",
    "extensionName",
    "gallery",
    "icon",
    "name",
    "note",
    "source",
    "title",
    "version",
  ].map((name) => [name, ignored] as const),
]);

/** Whether a name that the hub has too is written here as another client writes it. */
export function isKnownElsewhere(name: string, value: Json): boolean {
  switch (name) {
    case "type":
      return typeof value === "string" && !OWN_TYPES.has(value);
    case "tools":
      return Array.isArray(value);
    case "command":
    case "sandbox":
      return isJsonObject(value);
    case "oauth":
      return isJsonObject(value) && oauthOf(value).others.length > 0;
    default:
      return false;
  }
}

const OWN_TYPES: ReadonlySet<string> = new Set([
  "local",
  "remote",
  "stdio",
  "http",
  "streamable-http",
  "streamableHttp",
  "sse",
  "ws",
]);

/** Reads a member as the client that writes it so means it; `server` is what the entry says in the hub's words. */
export function adoptMember(name: string, value: Json, server: JsonObject): AdoptedMember {
  return MEMBERS.get(name)?.(value, server) ?? { kind: "unknown" };
}
