import type { Client } from "@modelcontextprotocol/client";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import type { ToolMessage } from "../core/tool.ts";
import type { Asker } from "./answer_questions.ts";
import { cleanText } from "./clean_text.ts";

const LEVELS = new Set(
  ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"],
);
/** What servers of the newest revision are asked to say with a call; older ones say what they think right. */
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
const MAX_DATA_CHARS = 8192;
const MAX_LOGGER_CHARS = 128;
/** Messages of one call; what a server says beyond that is nobody's. */
const MAX_MESSAGES = 1000;

/**
 * Hands what a server says in the middle of a call to whoever called, and to the log at debug. The protocol does not say
 * which call it belongs to: with several under way nobody is told, lest one caller reads another's.
 */
export function passMessages(
  client: Client,
  { askers, source, log }: { askers: ReadonlySet<Asker>; source: string; log: Log },
): void {
  const told = new WeakMap<Asker, number>();
  client.setNotificationHandler("notifications/message", ({ params }) => {
    const message = readMessage(params as unknown as JsonObject);
    const { level, data } = message;
    log.debug("An MCP server says something", { server: source, level, data });
    const [asker, ...others] = askers;
    if (asker?.tell === undefined || others.length > 0) return;
    const count = (told.get(asker) ?? 0) + 1;
    if (count > MAX_MESSAGES) return;
    told.set(asker, count);
    const { logger } = message;
    asker.tell({ ...message, logger: logger === undefined ? source : `${source}: ${logger}` });
  });
}

/** The parameters of a request whose caller listens. */
export function withLogLevel(client: Client, params: JsonObject): JsonObject {
  if (client.getProtocolEra() !== "modern") return params;
  const { _meta: meta } = params;
  return { ...params, _meta: { ...isJsonObject(meta) ? meta : {}, [LOG_LEVEL]: "debug" } };
}

function readMessage({ level, logger, data = null }: JsonObject): ToolMessage {
  return {
    level: typeof level === "string" && LEVELS.has(level) ? level : "info",
    ...typeof logger === "string" ? { logger: cleanText(logger, MAX_LOGGER_CHARS) } : {},
    data: cleanData(data),
  };
}

function cleanData(data: Json): Json {
  if (typeof data === "string") return cleanText(data, MAX_DATA_CHARS);
  const text = JSON.stringify(
    data,
    (_, value) => typeof value === "string" ? cleanText(value, MAX_DATA_CHARS) : value,
  );
  return text.length > MAX_DATA_CHARS ? cleanText(text, MAX_DATA_CHARS) : JSON.parse(text);
}
