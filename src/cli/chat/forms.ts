import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { secretFieldsOf } from "../../core/run_question.ts";

const MAX_PROMPT = 400;

/** Asks for a line, which is not shown where it is a secret; null where the input has ended. */
export type AskLine = (prompt: string, options: { isSecret: boolean }) => Promise<string | null>;

/**
 * Has a person fill in a form of simple fields, one line each; an empty line leaves a field out, or takes its default. What
 * fits is the server's to say. Null where the input has ended.
 */
export async function fillIn(schema: JsonObject, ask: AskLine): Promise<JsonObject | null> {
  const { properties, required } = schema;
  const wanted = Array.isArray(required) ? required : [];
  const content: JsonObject = {};
  const secrets = secretFieldsOf(schema);
  for (const [name, field] of Object.entries(isJsonObject(properties) ? properties : {})) {
    const facts = isJsonObject(field) ? field : {};
    const isSecret = secrets.has(name);
    const said = await ask(promptOf(name, facts, wanted.includes(name)), { isSecret });
    if (said === null) return null;
    const value = said.trim() === "" ? facts["default"] : valueOf(said, facts["type"]);
    if (value !== undefined) content[name] = value;
  }
  return content;
}

function promptOf(name: string, field: JsonObject, isRequired: boolean): string {
  const { title, description, type, default: otherwise } = field;
  const label = typeof title === "string" ? title : name;
  const choices = Array.isArray(field["enum"]) ? field["enum"].map(String).join(" / ") : type;
  const facts = [
    ...(typeof description === "string" ? [description] : []),
    ...(choices === undefined ? [] : [String(choices)]),
    ...(otherwise === undefined ? [] : [`else ${JSON.stringify(otherwise)}`]),
    ...(isRequired ? [] : ["may be left out"]),
  ];
  const shown = `${label}${facts.length === 0 ? "" : ` (${facts.join("; ")})`}`;
  return `${shown.slice(0, MAX_PROMPT)} > `;
}

/** A line as the field's type; as it is where it is none, for the hub to refuse. */
function valueOf(line: string, type: Json | undefined): Json {
  const text = line.trim();
  if (type === "boolean") {
    if (/^(y|yes|true)$/i.test(text)) return true;
    return /^(n|no|false)$/i.test(text) ? false : text;
  }
  if (type === "number" || type === "integer") {
    return Number.isFinite(Number(text)) ? Number(text) : text;
  }
  if (type === "array") return text.split(",").map((one) => one.trim());
  return line;
}
