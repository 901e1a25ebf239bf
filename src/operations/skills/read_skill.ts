import { isScalar, parseDocument } from "yaml";
import { isJsonObject, type Json } from "../../core/json.ts";

/** What the head of a `SKILL.md` says. */
export interface SkillHead {
  name: string;
  description: string;
  version?: string;
  /** Full names of tools that it needs, or patterns over them. It gets none by naming them. */
  tools: readonly string[];
  /** When to load it, in the author's words. */
  triggers: readonly string[];
}

/** A `SKILL.md` that was read, or why it cannot be used. */
export type ReadSkill =
  | { ok: true; head: SkillHead; body: string }
  | { ok: false; problem: string };

/** Largest `SKILL.md`, in bytes. */
export const MAX_SKILL_BYTES = 64 * 1024;
const MAX_HEAD_CHARS = 16 * 1024;
const MAX_DESCRIPTION_CHARS = 1024;
const MAX_VERSION_CHARS = 64;
const MAX_LISTED = 50;
const MAX_LISTED_CHARS = 200;
/** Aliases of YAML grow a text by powers; skills have no use for them. */
const MAX_ALIASES = 16;
const NAME = /^[a-z0-9][a-z0-9_.-]{0,63}$/;
const HEAD = /^---[ \t]*\n([^]*?)^(?:---|\.\.\.)[ \t]*(?:\n|$)/m;
/** What a person who reads it would not see, but for what joins letters and emoji. */
const UNSEEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu;

/** Reads a `SKILL.md`: YAML between two lines of three dashes, then Markdown. Never throws. */
export function readSkill(bytes: Uint8Array): ReadSkill {
  if (bytes.length > MAX_SKILL_BYTES) {
    return bad(`it has more than the ${MAX_SKILL_BYTES} bytes that a SKILL.md may have`);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return bad("it is no UTF-8 text");
  }
  if (text.includes("\0")) return bad("it has a NUL, so it is no text");
  const plain = text.replace(/\r\n?/g, "\n");
  const found = plain.startsWith("---") ? HEAD.exec(plain) : null;
  if (found?.index !== 0) {
    return bad("it does not begin with YAML between two lines of three dashes");
  }
  const [whole, yaml = ""] = found;
  if (yaml.length > MAX_HEAD_CHARS) {
    return bad(`its head has more than ${MAX_HEAD_CHARS} characters`);
  }
  const head = readHead(yaml);
  return head.ok ? { ...head, body: plain.slice(whole.length).trim() } : head;
}

function readHead(yaml: string): { ok: true; head: SkillHead } | { ok: false; problem: string } {
  let value: unknown;
  try {
    const document = parseDocument(yaml, {
      schema: "core",
      uniqueKeys: true,
      stringKeys: true,
      prettyErrors: false,
      logLevel: "error",
    });
    const [error] = [...document.errors, ...document.warnings];
    if (error !== undefined) return bad(`its head is no valid YAML: ${shown(error.message)}`);
    // A version is a text: 1.10 is not the number 1.1.
    const version = document.get("version", true);
    if (isScalar(version) && version.value !== null) {
      version.value = version.source ?? version.value;
    }
    value = document.toJS({ maxAliasCount: MAX_ALIASES });
  } catch (error) {
    return bad(`its head is no valid YAML: ${shown(error instanceof Error ? error.message : "")}`);
  }
  if (!isJsonObject(value)) return bad("its head is no mapping of names to values");
  const { name, description, version, tools, triggers } = value;
  if (typeof name !== "string" || !NAME.test(name)) {
    return bad(
      `its name is ${
        shown(JSON.stringify(name) ?? "missing")
      }, wanted a letter or digit and up to 63 of a-z, 0-9, -, _ and .`,
    );
  }
  const said = typeof description === "string" ? oneLine(description) : "";
  if (said === "") return bad("it has no description, wanted a text");
  if (said.length > MAX_DESCRIPTION_CHARS) {
    return bad(`its description has more than ${MAX_DESCRIPTION_CHARS} characters`);
  }
  const wrong = wrongList("tools", tools) ?? wrongList("triggers", triggers) ??
    wrongVersion(version);
  if (wrong !== null) return bad(wrong);
  return {
    ok: true,
    head: {
      name,
      description: said,
      ...version === undefined || version === null ? {} : { version: oneLine(String(version)) },
      tools: listOf(tools),
      triggers: listOf(triggers),
    },
  };
}

function wrongList(field: string, value: Json | undefined): string | null {
  const isList = Array.isArray(value) && value.every((one) => typeof one === "string") &&
    value.length <= MAX_LISTED && value.every((one) => String(one).length <= MAX_LISTED_CHARS);
  if (value === undefined || value === null || isList) return null;
  return `its ${field} are no list of up to ${MAX_LISTED} texts of up to ${MAX_LISTED_CHARS} characters`;
}

function wrongVersion(value: Json | undefined): string | null {
  const isVersion = value === undefined || value === null ||
    typeof value === "string" && value.length <= MAX_VERSION_CHARS;
  return isVersion ? null : `its version is no text of up to ${MAX_VERSION_CHARS} characters`;
}

function listOf(value: Json | undefined): string[] {
  return Array.isArray(value) ? value.map((one) => oneLine(String(one))) : [];
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").replace(UNSEEN, "").trim();
}

function shown(text: string): string {
  const line = oneLine(text);
  return line.length > 200 ? `${line.slice(0, 200).toWellFormed()}…` : line;
}

function bad(problem: string): { ok: false; problem: string } {
  return { ok: false, problem };
}
