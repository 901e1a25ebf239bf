import { isJsonObject, type Json, type JsonObject, type JsonSchema } from "../core/json.ts";
import { mapSubschemas } from "./map_subschemas.ts";

/** Most values of one schema once its references are written out. */
const MAX_VALUES = 20_000;
/** Most references that one place stands for, each leading to the next. */
const MAX_OPEN = 200;

/**
 * The schema with each local `$ref` replaced by what it points to, its own members beside it, and each `true` by `{}`.
 * A reference inside itself is kept, over `$defs`, or with `recursion: "any"` becomes `{}`; one to nowhere becomes `{}`.
 * Null when that grows past a bound.
 */
export function inlineRefs(
  root: JsonSchema,
  { recursion }: { recursion: "keep" | "any" },
): JsonSchema | null {
  let left = MAX_VALUES;
  const names = new Map<string, string>();
  const kept = new Map<string, JsonSchema>();

  const schema = (value: Json, open: readonly string[]): Json => {
    left = open.length > MAX_OPEN ? -1 : left - 1;
    if (left < 0 || !isJsonObject(value)) return value === true ? {} : value;
    const ref = value["$ref"];
    if (typeof ref !== "string") return members(value, open);
    const { $ref: _, ...beside } = value;
    if (open.includes(ref)) {
      if (recursion === "any") return members(beside, open);
      let name = names.get(ref);
      if (name === undefined) {
        name = `${nameOf(ref)}_${names.size}`;
        names.set(ref, name);
        kept.set(name, schema(resolve(root, ref), [ref]) as JsonSchema);
      }
      return { $ref: `#/$defs/${name}` };
    }
    return schema({ ...resolve(root, ref), ...beside }, [...open, ref]);
  };

  const members = (value: JsonObject, open: readonly string[]): JsonObject => {
    const { $defs: _, definitions: __, $schema: ___, ...rest } = value;
    return mapSubschemas(rest, (sub) => schema(sub, open));
  };

  const made = schema(root, ["#"]) as JsonSchema;
  if (left < 0) return null;
  return kept.size === 0 ? made : { ...made, $defs: Object.fromEntries(kept) };
}

function nameOf(ref: string): string {
  return ref === "#" ? "root" : (ref.split("/").at(-1) ?? ref).replaceAll(/[^a-zA-Z0-9_]/g, "_");
}

/** The name that a step of a local reference stands for. */
export function pointerStep(step: string): string {
  return unescape(step).replaceAll("~1", "/").replaceAll("~0", "~");
}

function unescape(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

/** What a local reference (`#`, `#/a/b`) points to; an empty schema when that is nothing. */
function resolve(root: JsonSchema, ref: string): JsonObject {
  let at: Json | undefined = root;
  const [start, ...steps] = ref.split("/");
  if (start !== "#") return {};
  for (const step of steps) {
    const name = pointerStep(step);
    if (Array.isArray(at)) at = at[Number(name)];
    else at = isJsonObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return isJsonObject(at) ? at : {};
}
