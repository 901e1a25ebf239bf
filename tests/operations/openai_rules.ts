/**
 * What OpenAI's API refuses in `function.parameters`, written from its guides ("Function calling", "Structured model
 * outputs: supported schemas") and from the error messages users report. Independent of the code under test.
 */
const TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"];
const FORMATS = [
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
];
const STRICT_KEYWORDS = [
  "type",
  "description",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "enum",
  "const",
  "anyOf",
  "$ref",
  "$defs",
  "pattern",
  "format",
  "multipleOf",
  "maximum",
  "exclusiveMaximum",
  "minimum",
  "exclusiveMinimum",
  "minItems",
  "maxItems",
];

type Schema = Record<string, unknown>;

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Rules for both modes; an empty list means that the API takes the schema. */
export function findRefusals(root: unknown): string[] {
  const found: string[] = [];
  if (!isSchema(root)) return ["root is no object"];
  if (root.type !== "object") found.push("root: type is not object");
  if (!isSchema(root.properties)) found.push("root: object schema missing properties");
  for (const keyword of ["oneOf", "anyOf", "allOf", "enum", "not", "$ref"]) {
    if (keyword in root) found.push(`root: has ${keyword} at the top level`);
  }
  const walk = (schema: unknown, path: string): void => {
    if (!isSchema(schema)) {
      found.push(`${path}: ${JSON.stringify(schema)} is no object schema`);
      return;
    }
    const types = Array.isArray(schema.type)
      ? schema.type
      : schema.type === undefined
      ? []
      : [schema.type];
    for (const type of types) {
      if (!TYPES.includes(String(type))) found.push(`${path}: type ${type}`);
    }
    if (Array.isArray(schema.type) && schema.type.length < 2) {
      found.push(`${path}: short type list`);
    }
    if (types.includes("array") && !isSchema(schema.items)) {
      found.push(`${path}: array schema missing items`);
    }
    if (types.includes("object") && !isSchema(schema.properties)) {
      found.push(`${path}: object schema missing properties`);
    }
    if ("required" in schema) {
      const required = schema.required;
      if (!Array.isArray(required) || required.some((name) => typeof name !== "string")) {
        found.push(`${path}: required is no list of strings`);
      } else {
        if (new Set(required).size < required.length) found.push(`${path}: required repeats`);
        const known = isSchema(schema.properties) ? schema.properties : null;
        for (const name of required) {
          if (known !== null && !Object.hasOwn(known, name)) {
            found.push(`${path}: required ${name} is not declared`);
          }
        }
      }
    }
    for (const keyword of ["$schema", "$id", "x-mcp-header", "definitions", "$comment"]) {
      if (keyword in schema) found.push(`${path}: keeps ${keyword}`);
    }
    if ("format" in schema && !FORMATS.includes(String(schema.format))) {
      found.push(`${path}: format ${schema.format}`);
    }
    for (const keyword of ["exclusiveMinimum", "exclusiveMaximum"]) {
      if (keyword in schema && typeof schema[keyword] !== "number") {
        found.push(`${path}: ${keyword} is no number`);
      }
    }
    if ("enum" in schema && (!Array.isArray(schema.enum) || schema.enum.length === 0)) {
      found.push(`${path}: enum is empty`);
    }
    if ("description" in schema && typeof schema.description !== "string") {
      found.push(`${path}: description is no string`);
    }
    if ("$ref" in schema) {
      const name = /^#\/\$defs\/([A-Za-z0-9_-]+)$/.exec(String(schema.$ref))?.[1];
      const there = schema.$ref === "#" ||
        name !== undefined && isSchema(root.$defs) && Object.hasOwn(root.$defs, name);
      if (!there) found.push(`${path}: $ref ${schema.$ref} is not resolved`);
    }
    for (const keyword of ["items", "not", "contains", "propertyNames"]) {
      if (keyword in schema) walk(schema[keyword], `${path}/${keyword}`);
    }
    if (isSchema(schema.additionalProperties)) {
      walk(schema.additionalProperties, `${path}/additionalProperties`);
    }
    for (const keyword of ["anyOf", "oneOf", "allOf"]) {
      const branches = schema[keyword];
      if (branches === undefined) continue;
      if (!Array.isArray(branches) || branches.length === 0) {
        found.push(`${path}: empty ${keyword}`);
      } else branches.forEach((branch, index) => walk(branch, `${path}/${keyword}/${index}`));
    }
    for (const keyword of ["properties", "$defs", "patternProperties"]) {
      if (!isSchema(schema[keyword])) continue;
      for (const [name, child] of Object.entries(schema[keyword])) {
        walk(child, `${path}/${keyword}/${name}`);
      }
    }
  };
  walk(root, "#");
  return found;
}

/** The further rules of `strict: true`. */
export function findStrictRefusals(root: unknown): string[] {
  const found = findRefusals(root);
  const walk = (schema: unknown, path: string, level: number): void => {
    if (!isSchema(schema)) return;
    for (const keyword of Object.keys(schema)) {
      if (!STRICT_KEYWORDS.includes(keyword)) found.push(`${path}: ${keyword} is not permitted`);
    }
    if (!("type" in schema) && !("anyOf" in schema) && !("$ref" in schema)) {
      found.push(`${path}: schema must have a 'type' key`);
    }
    if ("$ref" in schema && Object.keys(schema).length > 1) {
      found.push(`${path}: $ref cannot have keywords`);
    }
    const types = [schema.type].flat();
    if (types.includes("object")) {
      if (schema.additionalProperties !== false) {
        found.push(`${path}: additionalProperties is required to be false`);
      }
      const required = Array.isArray(schema.required) ? schema.required : [];
      for (const name of Object.keys(isSchema(schema.properties) ? schema.properties : {})) {
        if (!required.includes(name)) found.push(`${path}: required must include ${name}`);
      }
    }
    if (level > 10) found.push(`${path}: ${level} levels of nesting`);
    if (isSchema(schema.items)) walk(schema.items, `${path}/items`, level + 1);
    if (Array.isArray(schema.anyOf)) {
      schema.anyOf.forEach((branch, index) => walk(branch, `${path}/anyOf/${index}`, level));
    }
    for (const keyword of ["properties", "$defs"]) {
      if (!isSchema(schema[keyword])) continue;
      const deeper = keyword === "properties" ? level + 1 : level;
      for (const [name, child] of Object.entries(schema[keyword])) {
        walk(child, `${path}/${keyword}/${name}`, deeper);
      }
    }
  };
  walk(root, "#", 0);
  return found;
}
