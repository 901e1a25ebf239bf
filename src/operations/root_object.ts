import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { listOf } from "./coerce.ts";
import { distinctJson } from "./same_json.ts";
import type { ResolveRef } from "./schema_ref.ts";

/** The root of a tool's schema as one object schema, with what was changed to get there. */
export interface RootObject {
  schema: JsonObject;
  /** False when the object allows more, or other, than the source did. */
  exact: boolean;
  notes: string[];
}

const MAX_DEPTH = 16;
/** What references lead to counts each time: a few can stand for more than any number of parts. */
const MAX_PARTS = 4000;
/** Merged by hand, or never to be assigned by name (`__proto__`). */
const OBJECT_KEYWORDS = [
  "type",
  "properties",
  "required",
  "anyOf",
  "oneOf",
  "allOf",
  "$ref",
  "__proto__",
];

/**
 * Model APIs take only an object at the root, without a union, an intersection or a reference. A referenced root is
 * put in place; branches become one object (union of the properties; required by all of them stays required), and a
 * union's rule is told in the description instead, since the hub checks the original schema anyway.
 */
export function toRootObject(source: unknown, resolve: ResolveRef): RootObject {
  const state = { exact: true, notes: [] as string[], parts: 0 };
  if (!isJsonObject(source)) {
    if (source !== undefined && source !== null) state.notes.push("The schema is no object");
    return { schema: { type: "object" }, exact: false, notes: state.notes };
  }
  const merged = flatten(source, { resolve, state, depth: 0 });
  if (merged.type !== undefined && !listOf(merged.type).includes("object")) {
    state.notes.push("The root is no object schema");
    return { schema: { type: "object" }, exact: false, notes: state.notes };
  }
  return { schema: { ...merged, type: "object" }, exact: state.exact, notes: state.notes };
}

interface Flattening {
  resolve: ResolveRef;
  state: { exact: boolean; notes: string[]; parts: number };
  depth: number;
}

function flatten(source: JsonObject, work: Flattening): JsonObject {
  if (work.depth > MAX_DEPTH || ++work.state.parts > MAX_PARTS) {
    work.state.exact = false;
    if (work.state.parts <= MAX_PARTS + 1) {
      work.state.notes.push("The root nests too deep, or has too many parts");
    }
    return {};
  }
  const deeper = { ...work, depth: work.depth + 1 };
  let merged = { ...source };
  if (typeof source.$ref === "string") {
    delete merged.$ref;
    const target = work.resolve(source.$ref);
    if (target !== null && isJsonObject(target.schema)) {
      merged = intersect([flatten(target.schema, deeper), merged]);
    } else {
      work.state.exact = false;
      work.state.notes.push(`The root refers to ${source.$ref.slice(0, 80)}, which is not there`);
    }
  }
  const branchesOf = (value: Json | undefined) =>
    (Array.isArray(value) ? value.filter(isJsonObject) : [])
      .map((branch) => flatten(branch, deeper));
  const all = branchesOf(source.allOf);
  delete merged.allOf;
  if (all.length > 0) {
    work.state.exact = false;
    merged = intersect([merged, ...all]);
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const branches = branchesOf(source[keyword]);
    delete merged[keyword];
    if (branches.length === 0) continue;
    work.state.exact = false;
    merged = intersect([merged, unite(branches)]);
  }
  for (const keyword of ["not", "if", "then", "else", "enum", "const"]) {
    if (merged[keyword] === undefined) continue;
    delete merged[keyword];
    work.state.exact = false;
    work.state.notes.push(`\`${keyword}\` at the root is left out`);
  }
  return merged;
}

function propertiesOf(schema: JsonObject): [string, Json][] {
  return isJsonObject(schema.properties) ? Object.entries(schema.properties) : [];
}

/** Both must hold: all properties, everything that any branch requires. The first schema's annotations win. */
function intersect(schemas: JsonObject[]): JsonObject {
  const merged: JsonObject = {};
  const properties = new Map<string, Json[]>();
  const required = new Set<string>();
  const descriptions: string[] = [];
  let type: Json | undefined;
  for (const schema of schemas) {
    for (const [name, child] of propertiesOf(schema)) {
      const known = properties.get(name);
      if (known === undefined) properties.set(name, [child]);
      else known.push(child);
    }
    for (const name of listOf(schema.required)) required.add(name);
    if (typeof schema.description === "string") descriptions.push(schema.description);
    type ??= schema.type;
    for (const [keyword, value] of Object.entries(schema)) {
      if (!OBJECT_KEYWORDS.includes(keyword) && !Object.hasOwn(merged, keyword)) {
        merged[keyword] = value;
      }
    }
  }
  if (schemas.some((schema) => schema.additionalProperties === undefined)) {
    delete merged.additionalProperties;
  }
  if (type !== undefined) merged.type = type;
  if (descriptions.length > 0) merged.description = [...new Set(descriptions)].join(" ");
  return withMembers(
    merged,
    new Map([...properties].map(([name, schemas]) => [name, allOf(schemas)])),
    required,
  );
}

function allOf(schemas: readonly Json[]): Json {
  const [only = {}, ...others] = distinctJson(schemas);
  return others.length === 0 ? only : { allOf: [only, ...others] };
}

/** One of them holds: all properties, required only what every branch requires, the rule in words. */
function unite(branches: JsonObject[]): JsonObject {
  const objects = branches.filter(({ type }) =>
    type === undefined || listOf(type).includes("object")
  );
  if (objects.length === 0) return branches[0] ?? {};
  const properties = new Map<string, Json[]>();
  for (const branch of objects) {
    for (const [name, child] of propertiesOf(branch)) {
      const forms = properties.get(name) ?? [];
      forms.push(child);
      properties.set(name, forms);
    }
  }
  const [first, ...others] = objects.map(({ required }) => new Set(listOf(required)));
  const required = [...first ?? []].filter((name) => others.every((other) => other.has(name)));
  const forms = [...new Set(objects.map(describeForm))].filter((form) => form !== "");
  const merged: JsonObject =
    objects.every(({ additionalProperties }) => additionalProperties === false)
      ? { additionalProperties: false }
      : {};
  if (forms.length > 1) merged.description = `Give one of these sets: ${forms.join(" | ")}`;
  return withMembers(
    merged,
    new Map([...properties].map(([name, schemas]) => [name, uniteForms(distinctJson(schemas))])),
    new Set(required),
  );
}

function uniteForms(forms: Json[]): Json {
  const [only] = forms;
  if (forms.length === 1 && only !== undefined) return only;
  const literals: Json[] = [];
  for (const form of forms) {
    if (!isJsonObject(form)) return { anyOf: forms };
    if (form.const !== undefined) literals.push(form.const);
    else if (Array.isArray(form.enum)) literals.push(...form.enum);
    else return { anyOf: forms };
  }
  const choices = distinctJson(literals);
  const description = forms.map((form) => isJsonObject(form) ? form.description : undefined)
    .find((text) => typeof text === "string");
  return description === undefined ? { enum: choices } : { description, enum: choices };
}

function describeForm(branch: JsonObject): string {
  const properties = new Map(propertiesOf(branch));
  return listOf(branch.required).map((name) => {
    const child = properties.get(name);
    return isJsonObject(child) && child.const !== undefined
      ? `${name} = ${JSON.stringify(child.const)}`
      : name;
  }).join(", ");
}

function withMembers(
  schema: JsonObject,
  properties: ReadonlyMap<string, Json>,
  required: ReadonlySet<string>,
): JsonObject {
  const merged = { ...schema };
  if (properties.size > 0) merged.properties = Object.fromEntries(properties);
  if (required.size > 0) merged.required = [...required];
  return merged;
}
