import type { TSchema } from "@sinclair/typebox";

/**
 * What the checker and the documentation read of a TypeBox schema.
 * `wanted` and `secret` are the configuration's own keywords; they never reach the published JSON Schema.
 */
export interface SchemaNode {
  type?: string;
  description?: string;
  const?: unknown;
  default?: unknown;
  anyOf?: SchemaNode[];
  properties?: Record<string, SchemaNode>;
  required?: string[];
  patternProperties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  uniqueItems?: boolean;
  /** Says in words what belongs here, where type and range do not say it all. For records it describes the names. */
  wanted?: string;
  /** The value, and everything below it, is never shown. */
  secret?: boolean;
}

/** The keywords of `SchemaNode` that only the hub understands. */
export const OWN_KEYWORDS: ReadonlySet<string> = new Set(["wanted", "secret"]);

/** A TypeBox schema seen as data; the configuration uses only the keywords listed above. */
export function toSchemaNode(schema: TSchema): SchemaNode {
  return schema as SchemaNode;
}

/** The members that an object schema lists by name, empty for other schemas. */
export function namedMembers(node: SchemaNode): [string, SchemaNode][] {
  return Object.entries(node.properties ?? {});
}

/** The pattern and the value schema of a record, if the schema is one. */
export function recordOf(node: SchemaNode): { pattern: RegExp; value: SchemaNode } | null {
  const [entry] = Object.entries(node.patternProperties ?? {});
  return entry === undefined ? null : { pattern: new RegExp(entry[0]), value: entry[1] };
}

/** The schema in words, to tell a person what belongs in its place. */
export function describeWanted(node: SchemaNode): string {
  if (node.wanted !== undefined && node.patternProperties === undefined) return node.wanted;
  if (node.const !== undefined) return JSON.stringify(node.const);
  if (node.anyOf !== undefined) return describeUnion(node.anyOf);
  switch (node.type) {
    case "string":
      return (node.minLength ?? 0) > 0 ? "a text that is not empty" : "a text";
    case "boolean":
      return "true or false";
    case "integer":
      return `a whole number${describeRange(node)}`;
    case "number":
      return `a number${describeRange(node)}`;
    case "array":
      return (node.minItems ?? 0) > 0 ? "a list with at least one entry" : "a list";
    case "object":
      return "an object";
    default:
      return "a value";
  }
}

function describeUnion(variants: SchemaNode[]): string {
  if (variants.every((variant) => variant.const !== undefined)) {
    return `one of ${variants.map((variant) => JSON.stringify(variant.const)).join(", ")}`;
  }
  return variants.map(describeWanted).join(" or ");
}

function describeRange(node: SchemaNode): string {
  if (node.exclusiveMinimum !== undefined) {
    return ` above ${node.exclusiveMinimum}${
      node.maximum === undefined ? "" : `, at most ${node.maximum}`
    }`;
  }
  if (node.minimum !== undefined && node.maximum !== undefined) {
    return ` from ${node.minimum} to ${node.maximum}`;
  }
  if (node.minimum !== undefined) return ` of at least ${node.minimum}`;
  return node.maximum === undefined ? "" : ` of at most ${node.maximum}`;
}
