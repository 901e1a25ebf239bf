import { Type } from "@sinclair/typebox";
import { MAX_CACHE_SECONDS } from "../core/limits.ts";
import { Duration } from "./duration_schema.ts";

/** What the response cache holds. */
export const Cache = Type.Object({
  maxSeconds: Type.Integer({
    minimum: 0,
    maximum: MAX_CACHE_SECONDS,
    default: 24 * 3600,
    description:
      "Longest time that an answer is kept for requests that ask for the response cache, in seconds; 0 keeps none.",
  }),
  maxEntryBytes: Type.Integer({
    minimum: 1024,
    maximum: 16 * 1024 * 1024,
    default: 1024 * 1024,
    description: "Largest answer that is kept, in bytes.",
  }),
  maxTotalBytes: Type.Integer({
    minimum: 64 * 1024,
    maximum: 1024 ** 4,
    default: 256 * 1024 * 1024,
    description: "Bytes of all answers; past that the oldest are dropped.",
  }),
  lookupTimeoutMs: Duration({
    default: 100,
    description: "Longest wait for the database; past that the provider is asked.",
  }),
  joinTimeoutMs: Duration({
    minimum: 0,
    default: 60_000,
    description:
      "Longest wait for a whole answer that another request has asked for; past that the provider is asked, at 0 at once.",
  }),
}, { additionalProperties: false, default: {}, description: "What the response cache holds." });
