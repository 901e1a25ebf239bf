import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { canonicalBase64 } from "../core/base64.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import { outwardUri } from "./tool_names.ts";

/**
 * What a server answered to a call, in a shape that every client of the hub takes: odd blocks are texts that say so, URIs are
 * those that the hub knows resources by. Null for what is no result of content.
 */
export function passedOn(server: LoadedMcpServer, answer: Json): JsonObject | null {
  if (!isJsonObject(answer) || !Array.isArray(answer.content)) return null;
  const { content, structuredContent, isError } = answer;
  return {
    content: content.map((block) => passedBlock(server, block)),
    ...isJsonObject(structuredContent) ? { structuredContent } : {},
    ...isError === true ? { isError } : {},
  };
}

/** One block of content, of a result or of a prompt's message. */
export function passedBlock(server: LoadedMcpServer, block: Json): JsonObject {
  if (!isJsonObject(block)) return odd("no object");
  const { type } = block;
  const shown = annotationsOf(block);
  switch (type) {
    case "text":
      return { type, text: typeof block.text === "string" ? block.text : "", ...shown };
    case "image":
    case "audio": {
      const { mimeType } = block;
      const data = base64Of(block.data);
      if (data === null || typeof mimeType !== "string") return odd(`${type} without data`);
      return { type, data, mimeType, ...shown };
    }
    case "resource": {
      const resource = isJsonObject(block.resource) ? passedContents(server, block.resource) : null;
      return resource === null ? odd("resource without content") : { type, resource, ...shown };
    }
    case "resource_link": {
      const { uri, name, title, description, mimeType, size } = block;
      if (typeof uri !== "string") return odd("link without a URI");
      return {
        type,
        uri: /^https?:/i.test(uri) ? uri : outwardUri(server, uri),
        name: typeof name === "string" ? name : uri,
        ...textsOf({ title, description, mimeType }),
        ...typeof size === "number" ? { size } : {},
        ...shown,
      };
    }
    default:
      return odd(`block of the unknown kind ${typeof type === "string" ? type.slice(0, 64) : ""}`);
  }
}

/** The contents of a resource; null for what has none. */
export function passedContents(
  server: LoadedMcpServer,
  { uri, mimeType, text, blob }: JsonObject,
): JsonObject | null {
  if (typeof uri !== "string") return null;
  const own = { uri: outwardUri(server, uri), ...textsOf({ mimeType }) };
  if (typeof text === "string") return { ...own, text };
  const data = base64Of(blob);
  return data === null ? null : { ...own, blob: data };
}

function odd(what: string): JsonObject {
  return { type: "text", text: `(${what})` };
}

function textsOf(values: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] =>
      typeof entry[1] === "string"
    ),
  );
}

function annotationsOf({ annotations }: JsonObject): JsonObject {
  if (!isJsonObject(annotations)) return {};
  const { audience, priority, lastModified } = annotations;
  const roles = Array.isArray(audience)
    ? audience.filter((role) => role === "user" || role === "assistant")
    : null;
  const isPriority = typeof priority === "number" && priority >= 0 && priority <= 1;
  return {
    annotations: {
      ...roles === null ? {} : { audience: roles },
      ...isPriority ? { priority } : {},
      ...typeof lastModified === "string" ? { lastModified } : {},
    },
  };
}

/** Base64 as clients take it: they refuse a whole answer for one blob that is written otherwise. */
function base64Of(data: Json | undefined): string | null {
  return typeof data === "string" ? canonicalBase64(data) : null;
}
