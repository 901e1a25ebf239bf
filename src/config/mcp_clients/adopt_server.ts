import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { nearestName } from "../nearest_name.ts";
import { adoptMember, isKnownElsewhere } from "./members.ts";

/** An entry of `mcpServers` in the hub's own words, and what of it was not taken over, one sentence each. */
export interface AdoptedServer {
  server: JsonObject;
  notes: string[];
}

/** `${env:NAME}` of VS Code, Cursor and Cline. */
const ENV_TOKEN = /\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}/g;
/** Further variables of editors, which mean nothing where there is none. */
const EDITOR_TOKEN =
  /\$\{(?:input:[^}]*|workspaceFolder[^}]*|userHome|pathSeparator|command:[^}]*)\}/;

/**
 * Reads an entry as Claude Desktop, Claude Code, Cursor, VS Code, Cline, Roo Code, Windsurf, Gemini CLI, Zed, Codex and
 * others write it: their names for what the hub has too are mapped, what it has no use for is left out with a note. A name
 * that is neither known nor near to one of `own`, the hub's settings, is left out likewise; a near one stays, so that the
 * checker can ask what was meant.
 */
export function adoptServer(given: JsonObject, own: readonly string[]): AdoptedServer {
  const server: JsonObject = {};
  const notes: string[] = [];
  const foreign: [string, Json][] = [];
  for (const [name, value] of Object.entries(given)) {
    if (own.includes(name) && !isKnownElsewhere(name, value)) server[name] = plainTokens(value);
    else foreign.push([name, plainTokens(value)]);
  }
  for (const [name, value] of foreign) {
    const adopted = adoptMember(name, value, server);
    if (adopted.kind === "mapped") {
      Object.assign(server, adopted.members);
      if (adopted.why !== undefined) notes.push(`\`${name}\` ${adopted.why}`);
    } else if (adopted.kind === "note") notes.push(`\`${name}\` ${adopted.why}`);
    else if (adopted.kind === "unknown" && nearestName(name, own) === null) {
      notes.push(`\`${name}\` is no setting of the hub, and was not read`);
    } else if (adopted.kind === "unknown") server[name] = value;
  }
  const token = EDITOR_TOKEN.exec(JSON.stringify(server))?.[0];
  if (token !== undefined) {
    notes.push(
      `${token} is a variable of an editor, and stays as it is: write $\{NAME} for the environment`,
    );
  }
  return { server, notes };
}

function plainTokens(value: Json): Json {
  if (typeof value === "string") return value.replaceAll(ENV_TOKEN, "${$1}");
  if (Array.isArray(value)) return value.map(plainTokens);
  if (!isJsonObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, plainTokens(member)]),
  );
}
