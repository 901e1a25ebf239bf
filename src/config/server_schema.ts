import { Type } from "@sinclair/typebox";
import { MAX_BODY_BYTES, MAX_CONCURRENT_REQUESTS, MAX_UPLOAD_BYTES } from "../core/limits.ts";
import { Duration } from "./duration_schema.ts";

const closed = { additionalProperties: false } as const;

/** Where and how the hub listens. */
export const Server = Type.Object({
  host: Type.String({
    minLength: 1,
    default: "127.0.0.1",
    description: "Address to listen on. Anything but a loopback address opens the hub to others.",
  }),
  port: Type.Integer({
    minimum: 0,
    maximum: 65_535,
    default: 4141,
    description: "Port to listen on; 0 takes a free one.",
  }),
  maxBodyBytes: Type.Integer({
    minimum: 1024,
    maximum: 1024 * 1024 * 1024,
    default: MAX_BODY_BYTES,
    description: "Largest request body, in bytes.",
  }),
  maxUploadBytes: Type.Integer({
    minimum: 1024,
    maximum: 64 * 1024 * 1024 * 1024,
    default: MAX_UPLOAD_BYTES,
    description:
      "Largest file or form that is sent on to a provider while it comes, in bytes; it is not held.",
  }),
  publicUrl: Type.Optional(Type.String({
    pattern: "^https?://[^/?#@\\s]+(?:/[^?#\\s]*[^/?#\\s])?$",
    wanted: "an http or https address without a slash at its end",
    description:
      "Where people's browsers reach the hub: authorization servers of MCP servers send them back there. Default: the loopback address that a request came to.",
  })),
  trustedHosts: Type.Optional(
    Type.Array(Type.String({ minLength: 1, wanted: "a host or host:port" }), {
      uniqueItems: true,
      description:
        "Values of the Host header that are accepted besides the address the hub listens on.",
    }),
  ),
  cors: Type.Optional(Type.Object({
    origins: Type.Array(
      Type.String({
        pattern: "^(?:\\*|https?://[^/?#@\\s*]+)$",
        wanted: "an origin such as https://app.example.com, or *",
      }),
      {
        default: [],
        uniqueItems: true,
        maxItems: 200,
        description:
          "Origins of web pages that may call the hub with a key of their own, such as https://app.example.com; * is every page.",
      },
    ),
  }, {
    ...closed,
    description: "Which pages of other origins may call the hub; cookies never count.",
  })),
  keepaliveMs: Duration({
    minimum: 0,
    default: 10_000,
    description: "Silence of a stream after which a comment is sent; 0 sends none.",
  }),
  headersTimeoutMs: Duration({
    default: 10_000,
    description: "Longest wait for the headers of a request.",
  }),
  requestTimeoutMs: Duration({
    default: 30_000,
    description: "Longest wait for the body of a request.",
  }),
  idleTimeoutMs: Duration({
    default: 75_000,
    description: "How long a connection without a request is kept open.",
  }),
  shutdownDelayMs: Duration({
    minimum: 0,
    default: 5000,
    description:
      "How long the port stays open after SIGTERM, while /readyz already says 503; Ctrl-C skips it.",
  }),
  shutdownGraceMs: Duration({
    minimum: 0,
    default: 30_000,
    description: "How long answers under way may go on once the port is closed.",
  }),
  metrics: Type.Union([Type.Literal("local"), Type.Literal("key"), Type.Literal("public")], {
    default: "local",
    description:
      "Who reads /metrics: `key`: clients with a key, `local`: also programs of this machine that come without a proxy, `public` everybody.",
  }),
  maxConcurrentRequests: Type.Integer({
    minimum: 0,
    default: MAX_CONCURRENT_REQUESTS,
    description:
      "Requests with a key at the same time; more wait, and past that are answered 503. 0: no limit.",
  }),
  maxQueuedRequests: Type.Optional(Type.Integer({
    minimum: 0,
    description:
      "Requests that may wait for their turn. Default: twice `server.maxConcurrentRequests`.",
  })),
  queueTimeoutMs: Duration({
    default: 5000,
    description: "Longest wait for a turn, of the hub and of a key each.",
  }),
}, { ...closed, default: {}, description: "Where and how the hub listens." });
