import type { TObject } from "@sinclair/typebox";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { Route, RouteResponse } from "./route.ts";

/** Title and version of the described API. */
export interface OpenApiInfo {
  title: string;
  version: string;
}

const ERROR_SCHEMA: JsonObject = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: "string" },
      },
    },
  },
};

/** The OpenAPI 3.1 document of the routes; whose schemas are what requests are checked against. */
export function toOpenApi(routes: readonly Route[], info: OpenApiInfo): JsonObject {
  const paths: JsonObject = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}");
    const known = paths[path];
    const item: JsonObject = isJsonObject(known) ? known : {};
    item[route.method.toLowerCase()] = toOperation(route);
    paths[path] = item;
  }
  return {
    openapi: "3.1.0",
    info: { title: info.title, version: info.version },
    paths,
    components: {
      schemas: { Error: ERROR_SCHEMA },
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer" },
        apiKey: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
  };
}

const OLLAMA_ERROR: JsonObject = {
  description: "An error, in Ollama's shape",
  content: {
    "application/json": {
      schema: { type: "object", properties: { error: { type: "string" } }, required: ["error"] },
    },
  },
};

const TEXT_ERROR: JsonObject = {
  description: "An error, as a sentence",
  content: { "text/plain": { schema: { type: "string" } } },
};

function toOperation(route: Route): JsonObject {
  const operation: JsonObject = {
    operationId: operationId(route),
    tags: [route.tag],
    summary: route.summary,
    responses: toResponses(route),
    security: toSecurity(route),
    "x-loophub-role": route.auth,
  };
  if (route.browserTokens === true) operation["x-loophub-browser-tokens"] = true;
  if (route.description !== undefined) operation.description = route.description;
  const parameters = [
    ...toParameters(route.params, "path"),
    ...toParameters(route.query, "query"),
    ...Object.entries(route.headers ?? {}).map(([name, description]) => ({
      name,
      in: "header",
      required: false,
      description,
      schema: { type: "string" },
    })),
  ];
  if (parameters.length > 0) operation.parameters = parameters;
  if (route.body !== undefined) {
    const own = route.body === "raw" ? { type: "object" } : plain(route.body);
    const schema = route.otherBody === undefined
      ? own
      : { anyOf: [own, plain(route.otherBody.schema)] };
    operation.requestBody = { required: true, content: { "application/json": { schema } } };
  }
  return operation;
}

/** Schemes of which one is enough; an empty one stands for no key. */
function toSecurity({ auth, needsNoKey }: Route): JsonObject[] {
  if (auth === "public") return [];
  const keys = [{ bearer: [] }, { apiKey: [] }];
  return needsNoKey === undefined ? keys : [...keys, {}];
}

function operationId({ method, path }: Route): string {
  const words = path.replace(/\{[^}]*\}/g, "").split(/[^A-Za-z0-9]+/).filter((word) => word !== "");
  return [method.toLowerCase(), ...words].join("_");
}

function toParameters(schema: TObject | undefined, place: "path" | "query"): JsonObject[] {
  if (schema === undefined) return [];
  return Object.entries(schema.properties).map(([name, member]) => ({
    name,
    in: place,
    required: place === "path" || (schema.required?.includes(name) ?? false),
    schema: plain(member),
  }));
}

function toResponses({ responses, errors }: Route): JsonObject {
  const all: JsonObject = {};
  for (const [status, response] of Object.entries(responses)) all[status] = toResponse(response);
  all.default = errors === "text" ? TEXT_ERROR : errors === "ollama" ? OLLAMA_ERROR : {
    description: "An error, in OpenAI's shape",
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
  };
  return all;
}

function toResponse(response: RouteResponse): JsonObject {
  const { description, schema, contentType, orStream = false } = response;
  if (schema === undefined && contentType === undefined) return { description };
  const media: JsonObject = schema === undefined ? {} : { schema: plain(schema) };
  const content: JsonObject = { [contentType ?? "application/json"]: media };
  if (orStream) content["text/event-stream"] = {};
  return { description, content };
}

/** TypeBox marks its schemas with symbols; JSON has none. */
function plain(schema: unknown): Json {
  return JSON.parse(JSON.stringify(schema)) as Json;
}
